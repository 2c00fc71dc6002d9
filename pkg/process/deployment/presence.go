package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Presence is a replica's entry among the members, and its counters.
type Presence struct {
	d       *Deployment
	id      string
	service string
	made    time.Time

	ready    atomic.Bool
	draining atomic.Bool
	calling  atomic.Bool
	view     *members.View
	// watched is view for others' goroutines, and givesWay says that members of another kind were here first.
	watched  atomic.Pointer[members.View]
	givesWay atomic.Bool
	// heard is when the replica's own entry came back last; nil: never.
	heard atomic.Pointer[time.Time]
	// listening is how others look for the replica; nil: they cannot yet.
	listening atomic.Pointer[members.Listening]
	// since is when it was announced first; nil: not yet.
	since  atomic.Pointer[time.Time]
	budget atomic.Uint64
	// Device is what the replica computes routed experts with; empty: it does not.
	// ExpertBytes are what one takes on it at most, and Access what an access does; nil:
	// unknown.
	Device      string
	ExpertBytes uint64
	Access      *pb.AccessTime
	// United are the united experts that an expert host can load.
	United []*pb.UnitedExperts
	// RowSums says that an aggregator takes the sums of whole rows.
	RowSums bool
	// Sampling is what an attention replica knows of requests' sampling (schemas.Sampling).
	Sampling uint32

	mu    sync.Mutex
	stats map[string]float64
	// Stuck, if set, says that the replica does not get on with its work: it
	// then answers no call, and is no member soon.
	Stuck func() bool
	// Fill, if set, adds to the stats whenever they are announced.
	Fill func(stats map[string]float64)
	// Trouble, if set, says why the replica is not ready.
	Trouble func() error
}

// NewPresence prepares a replica's entry.
func (d *Deployment) NewPresence(id, service string) *Presence {
	return &Presence{d: d, id: id, service: service, made: time.Now(), stats: map[string]float64{}}
}

// Add counts.
func (p *Presence) Add(name string, n float64) {
	p.mu.Lock()
	p.stats[name] += n
	p.mu.Unlock()
}

// Set sets a gauge.
func (p *Presence) Set(name string, v float64) {
	p.mu.Lock()
	p.stats[name] = v
	p.mu.Unlock()
}

// SetReady reports whether the replica can work.
func (p *Presence) SetReady(ready bool) {
	if p.ready.Swap(ready) != ready {
		p.tell()
	}
}

// Ready returns what SetReady said last, unless the replica gives way to others.
func (p *Presence) Ready() bool { return p.ready.Load() && p.MayStay() == nil }

// Drain says that the replica takes nothing new.
func (p *Presence) Drain() {
	if !p.draining.Swap(true) {
		p.tell()
	}
}

// SetBudget says how many bytes of expert weights the replica can hold; 0 is no limit.
func (p *Presence) SetBudget(bytes uint64) {
	if p.budget.Swap(bytes) != bytes && p.view != nil { // else it is not here yet
		p.tell()
	}
}

// Watch follows the members of this replica's kind until ctx ends, and lets the
// replica answer the planner's calls.
func (p *Presence) Watch(ctx context.Context) (*members.View, error) {
	v, err := members.WatchKind(ctx, p.d.Members, p.d.Kind(), members.Told{Strange: p.strange, Dropped: p.dropped})
	if err != nil {
		return nil, fmt.Errorf("watching the members: %w", err)
	}
	p.view = v
	p.watched.Store(v)
	if p.d.Joined != nil {
		p.d.Joined(p)
	}
	if p.d.tellStages {
		go p.tellStages(ctx, v)
	}
	return v, nil
}

// SetCalling makes each renewal a call that all members answer, or ends that.
func (p *Presence) SetCalling(calling bool) {
	if p.calling.Swap(calling) != calling && calling {
		p.tell()
	}
}

// Call calls the members without waiting for the next renewal.
func (p *Presence) Call() { p.tell() }

// tell does not wait for the next renewal: others wait for what it says,
// which is true whether or not the caller goes on.
func (p *Presence) tell() {
	m := p.member()
	// An error means disconnected; the next renewal makes up for it.
	_ = p.d.Conn.Send(context.Background(), p.d.Conn.KeyTo(p.d.Members.Bucket(), m.Id), m, nil)
}

// Announce renews the entry until ctx ends, and then removes it.
func (p *Presence) Announce(ctx context.Context) error {
	now := time.Now()
	p.since.Store(&now)
	stop, err := p.listen()
	if err != nil {
		return err
	}
	defer stop()
	defer p.d.Telemetry.Metrics.Replica(p.service, p.id, p.d.process.host, p.d.process.pid, p.d.process.version)()
	listening, err := members.ListenHere(ctx, p.d.Conn, p.d.Subjects.Here(p.id))
	if err != nil {
		return err
	}
	defer listening.Stop()
	p.listening.Store(listening)
	return members.Announce(ctx, p.d.Members, p.member, members.Interval, p.asked())
}

// Lease returns how this replica contends for duties: it looks for those that have them, and
// can be looked for.
func (p *Presence) Lease() lease.Options {
	return lease.Options{Watcher: p.d.Liveness, Listens: p.Listens}
}

// Listens says that others can look for this replica (members.LivenessWatcher).
func (p *Presence) Listens() bool {
	l := p.listening.Load()
	return l != nil && l.Heard()
}

// Siblings returns the other replicas of this one's service, once it watches the members:
// each hands on what another one had of their queue when that is gone, or hangs.
func (p *Presence) Siblings(queue members.SiblingQueue, has *members.Holdings) *members.Siblings {
	d := p.d
	return members.NewSiblings(members.SiblingSettings{
		ID: p.id, Service: p.service, Members: p.view, Queue: queue, Holdings: has,
		Watch: d.Liveness.Watch, Listens: p.Listens, Connected: d.Conn.Hears,
		Send: func(has *pb.Holdings) error {
			body, err := proto.Marshal(has)
			if err != nil {
				return fmt.Errorf("encoding what %s has: %w", p.id, err)
			}
			return d.Conn.Tell(d.Subjects.Holdings(p.service, p.id), body)
		},
		MaxBytes: d.Conn.MaxPayload, Refused: d.Telemetry.Metrics.Refused.Inc, Logger: d.Logger,
	})
}

// answer and asked are of a replica that watches; others count only while
// nobody calls.
func (p *Presence) answer() uint64 {
	if p.view == nil || p.Stuck != nil && p.Stuck() {
		return 0
	}
	return p.view.Answer(p.id)
}

func (p *Presence) asked() <-chan struct{} {
	if p.view == nil {
		return nil
	}
	return p.view.Asked()
}

func (p *Presence) member() *pb.Member {
	p.mu.Lock()
	stats := maps.Clone(p.stats)
	p.mu.Unlock()
	if p.Fill != nil {
		p.Fill(stats)
	}
	stats["redeliveries_total"] = float64(p.d.traffic.Redeliveries())
	kind := p.d.Kind()
	m := &pb.Member{
		Id: p.id, Service: p.service, Model: p.d.Subjects.Model, ModelHash: kind.ModelHash,
		NumericClass: kind.NumericClass, Wire: kind.Wire, Hops: string(kind.Hops), SchemaVersion: kind.Version, Ready: p.Ready(), Draining: p.draining.Load(),
		Stats: stats, MemoryBudgetBytes: p.budget.Load(),
		Answer: p.answer(), Device: p.Device, ExpertBytes: p.ExpertBytes, Access: p.Access, United: p.United, RowSums: p.RowSums, Sampling: p.Sampling,
		Host: p.d.process.host, Pid: uint32(p.d.process.pid), Version: p.d.process.version, UptimeSeconds: time.Since(p.made).Seconds(), MadeUnixMs: p.made.UnixMilli(), Trouble: p.trouble(),
	}
	if p.calling.Load() {
		m.Call = max(1, rand.Uint64())
	}
	return m
}

// listen hears the replica's own announcements come back: that they do is the
// proof that the server takes and hands on messages.
func (p *Presence) listen() (stop func(), err error) {
	return p.d.Conn.FollowKeys(p.d.Members.Bucket(), p.id, func(string, []byte, bool) {
		now := time.Now()
		p.heard.Store(&now)
	})
}

// Reachable returns nil, or why the replica can get no work: there is no
// connection, the server does not answer, or the replica is leaving.
func (p *Presence) Reachable() error {
	if err := p.d.Conn.Ready(); err != nil {
		return err
	}
	if p.draining.Load() {
		return errors.New("draining")
	}
	heard := p.heard.Load()
	if heard == nil {
		return errors.New("not among the members yet")
	}
	if silent := time.Since(*heard); silent > members.TTL {
		return fmt.Errorf("NATS has been silent for %v", silent.Round(100*time.Millisecond))
	}
	return nil
}

// process is where a replica runs.
type process struct {
	host    string // the machine's name; empty: it has none
	pid     int
	version string
}

// Bounds of what members tell of it.
const (
	maxHost    = 253
	maxVersion = 64
)

func thisProcess(version string) process {
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return process{host: host[:min(len(host), maxHost)], pid: os.Getpid(), version: version[:min(len(version), maxVersion)]}
}

// TellStart logs where a replica runs: its id leads there. It is in the message, too: of
// many lines with the same message a log keeps a few.
func (d *Deployment) TellStart() {
	d.Logger.Info("replica "+d.replica+" starts", "host", d.process.host, "pid", d.process.pid, "version", d.process.version)
}

// ReplicaID returns the id of a replica with this deployment.
func (d *Deployment) ReplicaID(service string) string {
	if d.replica != "" {
		return d.replica
	}
	return NewID(service)
}

// maxTrouble bounds a replica's words about what it lacks.
const maxTrouble = 300

// trouble returns why the replica is not ready, as far as it says.
func (p *Presence) trouble() string {
	err := p.MayStay()
	if err == nil && p.Trouble != nil {
		err = p.Trouble()
	}
	if err == nil {
		return ""
	}
	text := []rune(err.Error())
	return string(text[:min(len(text), maxTrouble)])
}

// Rows moves the rows of one replica, over messages and objects.
func (d *Deployment) Rows(tracer *telemetry.Tracer) *transfer.Link {
	return transfer.New(transfer.Settings{
		Sender: d.Hop, Objects: transfer.NewObjectStore(d.Conn, d.Streams), Shape: d.Shape, RowBytes: d.Shape.Hidden * d.Wire.ElementBytes(),
		Payload: func() int { return int(d.Conn.MaxPayload()) }, Observer: d.Telemetry.Metrics.Transfers,
		Span: func(ctx context.Context, stage string, key *pb.Key, minibatch int) (end func()) {
			_, span := tracer.Child(ctx, stage, telemetry.Layer(key.GetLayer()), telemetry.Attempt(key.GetAttempt()), trace.WithAttributes(telemetry.AttrMinibatch.Int(minibatch)))
			return func() { span.End() }
		},
	})
}
