package probe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// The consumers that replicas share.
const (
	PromptGroup   = "tokenizer"
	sequenceGroup = "attention"
)

const (
	// depthAge is how long a look at the queues for metrics lasts.
	depthAge = time.Second
	// depthWithin bounds such a look: the reader of metrics waits for it.
	depthWithin = 500 * time.Millisecond
)

// depths is how many messages wait in the durable queues, as metrics show it.
type depths struct {
	queues []queue

	mu     sync.Mutex
	looked time.Time
	seen   map[string]float64
}

// queueDepths asks for the queues' depths, at most once in depthAge. What the
// server does not tell is not in them.
func (p *Probe) queueDepths(ctx context.Context) map[string]float64 {
	d := &p.depths
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.looked) < depthAge {
		return d.seen
	}
	ctx, cancel := context.WithTimeout(ctx, depthWithin)
	defer cancel()
	d.seen = waitingIn(ctx, d.queues, func(ctx context.Context, stream, group string) (queued, error) {
		return pending(ctx, p.d.Conn.JetStream(), stream, group)
	})
	if _, known := d.seen["sequence"]; known { // of its messages, requests count
		d.seen["sequence"] = float64(p.Sequences.Waiting(ctx, time.Now()))
	}
	d.looked = time.Now()
	return d.seen
}

// queue is a durable queue, and the consumer that takes of it.
type queue struct{ kind, stream, group string }

func queuesOf(s schemas.Streams) []queue {
	return []queue{
		{"prompt", s.Prompts().Name, PromptGroup},
		{"sequence", s.Sequences().Name, sequenceGroup},
	}
}

// waitingIn asks for all queues at once, so that one without an answer does not
// take the others' time. What is not told is not in it.
func waitingIn(ctx context.Context, queues []queue, look func(ctx context.Context, stream, group string) (queued, error)) map[string]float64 {
	found, failed := make([]queued, len(queues)), make([]error, len(queues))
	var looks sync.WaitGroup
	for i, q := range queues {
		looks.Go(func() { found[i], failed[i] = look(ctx, q.stream, q.group) })
	}
	looks.Wait()
	seen := map[string]float64{}
	for i, q := range queues {
		if failed[i] == nil {
			seen[q.kind] = float64(found[i].pending)
		}
	}
	return seen
}

// queued is what a look at a queue finds.
type queued struct {
	pending int    // messages that no replica was given yet, whatever they are
	given   uint64 // the newest message that one was given
	held    int    // sequences that wait in attention replicas
}

// last is the newest message of the stream at that moment.
func (q queued) last() uint64 { return q.given + uint64(q.pending) }

// pending asks how many messages of a stream no replica of a group has taken yet.
func pending(ctx context.Context, js jetstream.JetStream, stream, group string) (queued, error) {
	c, err := js.Consumer(ctx, stream, group)
	if err == nil {
		info := c.CachedInfo()
		return queued{pending: int(info.NumPending), given: info.Delivered.Stream}, nil
	}
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	all, err := js.Stream(ctx, stream) // the group was never here: all of them wait
	if err != nil {
		return queued{}, fmt.Errorf("looking at the queue in %s: %w", stream, err)
	}
	state := all.CachedInfo().State
	return queued{pending: int(state.Msgs), given: state.LastSeq - state.Msgs}, nil
}

// Members by service are told with these states.
const (
	stateReady    = "ready"
	stateUnready  = "unready"
	stateDraining = "draining"
)

func stateOf(m *pb.Member) string {
	switch {
	case m.GetDraining():
		return stateDraining
	case m.GetReady():
		return stateReady
	}
	return stateUnready
}

// memberReadings counts the members by service and state; a service that has no rights is none.
func memberReadings(seen []*pb.Member) (all []telemetry.Reading) {
	for _, service := range catalog.Names() {
		counts := map[string]float64{}
		for _, m := range members.OfService(seen, service) {
			counts[stateOf(m)]++
		}
		for _, state := range []string{stateReady, stateUnready, stateDraining} {
			all = append(all, telemetry.Reading{Labels: []string{service, state}, Value: counts[state]})
		}
	}
	return all
}

// Probe is what one replica sees of the pipeline.
type Probe struct {
	Streams   *Streams
	Sequences *Sequences
	Canaries  *Canaries

	d       *deployment.Deployment
	members *members.View
	depths  depths
	paused  atomic.Pointer[error] // why no request goes on; nil before the first look
}

// New returns a probe that has seen nothing.
func New(s Settings) *Probe {
	d := s.Deployment
	return &Probe{
		Streams:   &Streams{Clock: ServerClock{Here: time.Now}, d: d, ledger: s.Ledger},
		Sequences: &Sequences{replica: s.Replica, stream: d.Streams.Sequences().Name, queues: d.Conn.JetStream()},
		Canaries:  newCanaries(s),
		d:         d, depths: depths{queues: queuesOf(d.Streams)},
	}
}

// See says who the members are. It comes before all that asks about them.
func (p *Probe) See(all *members.View) {
	p.members, p.Sequences.members, p.Canaries.members = all, all, all
}

// Run looks until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	defer p.follow(ctx)()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.Streams.watch(ctx) })
	running.Go(func() { p.Canaries.watch(ctx) })
	running.Go(func() { p.watchConsumers(ctx) })
}

// follow shows in metrics what is seen, until stop is called.
func (p *Probe) follow(ctx context.Context) (stop func()) {
	m := p.d.Telemetry.Metrics
	stops := []func(){
		m.QueueDepth.Follow(func() map[string]float64 { return p.queueDepths(ctx) }),
		m.StreamFill.Follow(p.Streams.Levels.Shares),
		m.StageReady.Follow(p.Canaries.stagesReady),
		m.Members.Follow(func() []telemetry.Reading { return memberReadings(p.members.Snapshot()) }),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// Ledger knows what this replica has seen the token log take since the last look at its stream.
type Ledger interface {
	Written() int64
	// Looked takes out what a look at the stream found there.
	Looked(written int64)
}

// Settings are what a probe looks at, and with what.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	// Model says what a canary may ask for.
	Model *edge.Model
	// CanaryEvery is how long no token may flow before a canary is sent; 0: none is.
	CanaryEvery time.Duration
	Ledger      Ledger
	// Owns reports whether this replica serves the shard of a request.
	Owns func(request string) bool
}

// Streams are the durable streams and the buckets as they were seen last.
type Streams struct {
	Levels Levels
	Clock  ServerClock

	d      *deployment.Deployment
	ledger Ledger
}

// lookEvery is how often the durable streams are looked at.
const lookEvery = time.Second

// watch looks at the durable streams until ctx ends: how full they are,
// and whether they, and the buckets, are there at all.
func (w *Streams) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w.Look(ctx, w.d.Streams.Durable()...)
		w.LookAtBuckets(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks at streams, and makes those again that were deleted: every follower of a
// stream waits for that, and ends what it had.
func (w *Streams) Look(ctx context.Context, specs ...schemas.StreamSpec) {
	for _, spec := range specs {
		w.look(ctx, spec)
	}
}

func (w *Streams) look(ctx context.Context, spec schemas.StreamSpec) {
	written, asked := w.ledger.Written(), w.Clock.Here()
	state, err := w.d.Conn.State(ctx, spec.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		w.d.Logger.Warn("a stream is gone; it is to be made again", "stream", spec.Name)
		err = w.again(ctx, spec)
		state = bus.StreamState{}
	}
	if err != nil {
		w.unseen(ctx, spec.Name, err)
		return
	}
	w.note(spec.Name, spec.Kind, cures[spec.Kind], state)
	switch spec.Name {
	case w.d.Streams.Tokens().Name:
		w.ledger.Looked(written)
	case w.d.Streams.Prompts().Name: // of this one alone: servers' clocks may differ, too
		w.Clock.set(state.Time, asked, w.Clock.Here())
	}
}

// LookAtBuckets makes buckets again that were deleted, and looks how full they are.
func (w *Streams) LookAtBuckets(ctx context.Context) {
	within, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	gap := w.d.Conn.Gap()
	switch err := w.d.EnsureBuckets(within); {
	case err == nil, ctx.Err() != nil, gap(), w.d.Conn.Ready() != nil: // the connection tells of a server that is away or stores nothing
	case bus.Transient(err), errors.Is(err, context.DeadlineExceeded):
		w.d.Logger.Debug("looking at the buckets", "error", err)
	default:
		w.d.Logger.Warn("a bucket is gone, and cannot be made again", "error", err)
	}
	for _, kind := range deployment.BucketKinds() {
		stream := schemas.BucketStream(w.d.Streams.Bucket(kind))
		state, err := w.d.Conn.State(ctx, stream)
		if err != nil {
			w.unseen(ctx, stream, err)
			continue
		}
		w.note(stream, kind, cures["bucket"], state)
	}
}

// againWithin bounds the wait for a stream that is made again, by this replica or by
// another one: the other streams are to be looked at.
const againWithin = 3 * time.Second

// again makes a stream again, or waits a while until another replica has.
func (w *Streams) again(ctx context.Context, spec schemas.StreamSpec) error {
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	return w.d.EnsureStreams(ctx, spec)
}

// unseen tells of a look that failed; the next one is a second away.
func (w *Streams) unseen(ctx context.Context, stream string, err error) {
	if ctx.Err() == nil {
		w.d.Logger.Debug("looking at a stream", "stream", stream, "error", err)
	}
}

// note keeps what a look at a stream found, and warns of one that is nearly full.
func (w *Streams) note(stream, kind, cure string, state bus.StreamState) {
	if seen, warn := w.Levels.Set(stream, kind, state, time.Now()); warn {
		w.d.Logger.Warn("a stream is nearly full", "stream", stream, "holds", seen.How, "cure", cure)
	}
}
