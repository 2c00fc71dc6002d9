package directives

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// LeaseKey is the controller's lease in the bucket of leases.
const LeaseKey = "brownout"

// decideEvery is how often latencies are judged.
const decideEvery = 250 * time.Millisecond

// mostWaiting bounds messages that wait to be judged; those beyond are dropped, and counted.
const mostWaiting = 256

// Lease is the duty of controlling, which one candidate has at a time.
type Lease interface {
	Hold(ctx context.Context, fn func(ctx context.Context, by Writer) error) error
}

// Bucket is a Store's part that a controller needs.
type Bucket interface {
	Read(ctx context.Context) (Written, Wanted, error)
	Follow(ctx context.Context, got func(*Written, *Wanted))
	Write(ctx context.Context, there Written, d *pb.Directive, by Writer) (Written, error)
}

// Told hears what a controller does; each may be nil.
type Told struct {
	// Changed hears of a threshold that moved.
	Changed func(phase string, c brownout.Change, before int)
	// Phases hears what is known after each decision, by phase.
	Phases func(prefill, decode Phase)
	// Ignored hears of so many messages and times that do not count.
	Ignored func(n int)
}

// Controller writes directives while it has the lease.
type Controller struct {
	Settings
	Lease  Lease
	Bucket Bucket
	// Hear calls handler with each message of latencies until stop is called.
	Hear   func(handler func(data []byte)) (stop func(), err error)
	Told   Told
	Logger *slog.Logger
}

// Run controls whenever the lease is this candidate's, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	err := c.Lease.Hold(ctx, func(ctx context.Context, by Writer) error {
		t := tenure{c: c, by: by, begun: time.Now(), messages: make(chan []byte, mostWaiting), changes: make(chan change)}
		return t.run(ctx)
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// change is what came of the bucket.
type change struct {
	written *Written
	wanted  *Wanted
}

// tenure is one time of holding the lease.
type tenure struct {
	c     *Controller
	by    Writer
	begun time.Time

	messages chan []byte
	changes  chan change

	decider *decider
	there   Written
	fenced  bool
}

func (t *tenure) now() float64 { return time.Since(t.begun).Seconds() }

func (t *tenure) run(ctx context.Context) (err error) {
	if t.decider, err = newDecider(t.c.Settings, t.now()); err != nil {
		return err
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	stop, err := t.c.Hear(t.hear)
	if err != nil {
		return err
	}
	defer stop()
	following := make(chan struct{})
	go func() {
		defer close(following)
		t.c.Bucket.Follow(ctx, func(w *Written, s *Wanted) {
			select {
			case t.changes <- change{w, s}:
			case <-ctx.Done():
			}
		})
	}()
	defer func() { <-following }()
	t.loop(ctx)
	return ctx.Err()
}

// begin goes on from what lies in the bucket; it waits until that can be read.
func (t *tenure) begin(ctx context.Context) error {
	for {
		there, wanted, err := t.c.Bucket.Read(ctx)
		if err == nil {
			t.there = there
			t.decider.resume(there.Directive, t.now())
			t.decider.want(wanted, t.now())
			return nil
		}
		t.c.Logger.Debug("reading what lies in the bucket of directives", "error", err)
		if err := pause.For(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// again reads what lies in the bucket once more: another one has written, or it was made anew.
func (t *tenure) again(ctx context.Context) {
	if there, wanted, err := t.c.Bucket.Read(ctx); err == nil {
		t.there = there
		t.decider.want(wanted, t.now())
	}
}

// hear takes in a message of latencies, on its subscription's goroutine.
func (t *tenure) hear(data []byte) {
	select {
	case t.messages <- data:
	default:
		t.ignored(1)
	}
}

func (t *tenure) ignored(n int) {
	if n > 0 && t.c.Told.Ignored != nil {
		t.c.Told.Ignored(n)
	}
}

// loop judges what comes.
func (t *tenure) loop(ctx context.Context) {
	tick := time.NewTicker(decideEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case data := <-t.messages:
			t.judge(data)
		case ch := <-t.changes:
			t.take(ctx, ch)
		case <-tick.C:
			t.decide(ctx)
		}
	}
}

func (t *tenure) judge(data []byte) {
	l := &pb.Latencies{}
	if proto.Unmarshal(data, l) != nil {
		t.ignored(1)
		return
	}
	before := t.decider.ignored
	t.decider.hear(l, t.now())
	t.ignored(t.decider.ignored - before)
}

// take takes in a change of the bucket. A directive that is not this controller's is replaced
// with the next decision.
func (t *tenure) take(ctx context.Context, ch change) {
	switch w := ch.written; {
	case ch.wanted != nil:
		t.decider.want(*ch.wanted, t.now())
	case w == nil:
		t.again(ctx)
	case w.Revision > t.there.Revision:
		t.there = *w
	}
}

func (t *tenure) decide(ctx context.Context) {
	before := t.decider.shown
	want, moved := t.decider.decide(t.now())
	for phase, ch := range moved {
		if ch.Moved && t.c.Told.Changed != nil {
			t.c.Told.Changed(phaseNames[phase], ch, before[phase].Threshold)
		}
	}
	if t.c.Told.Phases != nil {
		t.c.Told.Phases(t.decider.shown[prefill], t.decider.shown[decode])
	}
	if t.fenced || same(t.there.Directive, want) {
		return
	}
	written, err := t.c.Bucket.Write(ctx, t.there, want, t.by)
	switch {
	case err == nil:
		t.there = written
		t.c.Logger.Info("a brownout directive", "version", written.Directive.Version, "prefill", millis(want.PrefillMillionths), "decode", millis(want.DecodeMillionths),
			"way", want.Way, "strategy", brownout.Strategy(want.Strategy), "reason", want.Reason)
	case errors.Is(err, ErrFenced):
		t.fenced = true // the lease's end comes
	case errors.Is(err, ErrConflict):
		t.again(ctx)
	case ctx.Err() == nil:
		t.c.Logger.Warn("a brownout directive could not be written; it is tried again", "error", err)
	}
}

func millis(millionths uint32) float64 { return float64(millionths) / brownout.One }

// InBucket returns the controller's lease of a model, for a candidate of a unique name.
func InBucket(kv jetstream.KeyValue, owner string, o lease.Options) Lease {
	return inBucket{kv, owner, o}
}

type inBucket struct {
	kv      jetstream.KeyValue
	owner   string
	options lease.Options
}

// Hold implements Lease.
func (l inBucket) Hold(ctx context.Context, fn func(context.Context, Writer) error) error {
	return lease.Hold(ctx, l.kv, LeaseKey, l.owner, l.options, func(ctx context.Context, held *lease.Held) error {
		return fn(ctx, Writer{ID: l.owner, Epoch: held.Epoch(), Holds: held.Holds})
	})
}

// FollowLease tells of each renewal of the controller's lease until stop is called.
func FollowLease(leases jetstream.KeyValue, renewed func()) (stop func(), err error) {
	b, err := bus.AsBucket(leases)
	if err != nil {
		return nil, err
	}
	return b.Conn().FollowKeys(b.Bucket(), LeaseKey, func(_ string, value []byte, deleted bool) {
		l := &pb.Lease{}
		if !deleted && proto.Unmarshal(value, l) == nil && l.Owner != "" {
			renewed()
		}
	})
}

// MeterEvery is how often a replica tells what it has measured.
const MeterEvery = 250 * time.Millisecond

const (
	// MostTimes bounds the times of a phase in one message.
	MostTimes = 512
	// MostCurves bounds the steps of which a message has curves.
	MostCurves = 16
	// CurveEvery is how often gates are asked for the curve of a phase's step.
	CurveEvery = 250 * time.Millisecond
	// Points is at how many thresholds they are asked for it.
	Points = 11
	// mostRows bounds the rows of a step.
	mostRows = 1 << 20
)

// Meter measures the steps of one replica. It is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	of      *pb.Latencies // what is told next
	waiting float64
	busy    bool
	coming  int
}

// NewMeter is of a run of a replica, which life names.
func NewMeter(model uint64, replica string, life uint64) *Meter {
	return &Meter{of: &pb.Latencies{Version: schemas.Version, Model: model, Replica: replica, Life: life}}
}

// Step takes in what a step took; prefill is one with rows of a prompt.
func (m *Meter) Step(prefill bool, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := &m.of.DecodeSeconds
	if prefill {
		list = &m.of.PrefillSeconds
	}
	if len(*list) < MostTimes {
		*list = append(*list, float32(took.Seconds()))
	}
}

// Curve takes in what gates have told of a step.
func (m *Meter) Curve(c *pb.StepCurve) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.of.Curves) < MostCurves {
		m.of.Curves = append(m.of.Curves, c)
	}
}

// Wait takes in how long requests have waited for their first token, whether there are any, and how
// many rows more steps will have for them.
func (m *Meter) Wait(longest time.Duration, busy bool, coming int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting, m.busy, m.coming = longest.Seconds(), busy, coming
}

// Take returns what there is to tell; nil: nothing.
func (m *Meter) Take() *pb.Latencies {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.busy && len(m.of.PrefillSeconds)+len(m.of.DecodeSeconds) == 0 {
		return nil
	}
	out := m.of
	out.Number, out.WaitedSeconds, out.Busy, out.ComingRows = out.Number+1, float32(m.waiting), m.busy, uint32(m.coming)
	m.of = &pb.Latencies{Version: out.Version, Model: out.Model, Replica: out.Replica, Life: out.Life, Number: out.Number}
	return out
}

// mostReplicas bounds the senders that a controller remembers.
const mostReplicas = 1024

// heard says which messages of latencies count.
type heard struct {
	model uint64
	from  map[string]*pb.Latencies // the newest of each replica, without its times
}

// take reports whether a message is one of this model that was not heard before.
func (h *heard) take(l *pb.Latencies) bool {
	before := h.from[l.Replica]
	switch {
	case l.Version != schemas.Version || l.Model != h.model || !schemas.IsReplicaID(l.Replica):
		return false
	case len(l.PrefillSeconds) > MostTimes || len(l.DecodeSeconds) > MostTimes || len(l.Curves) > MostCurves || l.ComingRows > mostRows:
		return false
	case !(l.WaitedSeconds >= 0) || math.IsInf(float64(l.WaitedSeconds), 0):
		return false
	case before != nil && before.Life == l.Life && l.Number <= before.Number:
		return false
	case before == nil && len(h.from) == mostReplicas:
		clear(h.from)
	}
	h.from[l.Replica] = &pb.Latencies{Life: l.Life, Number: l.Number}
	return true
}
