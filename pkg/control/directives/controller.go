package directives

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
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
