package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

func TestClassify(t *testing.T) {
	other := errors.New("other")
	cases := map[string]struct {
		err       error
		delivered int
		want      Outcome
		after     time.Duration
	}{
		"none":            {nil, 1, Done, 0},
		"poison":          {fmt.Errorf("reading: %w", Poison(other)), 1, Poisoned, 0},
		"late":            {fmt.Errorf("step: %w", context.DeadlineExceeded), 1, Late, 0},
		"deadline":        {context.DeadlineExceeded, 1, Late, 0},
		"retry":           {RetryAfter(time.Second, other), 100, Retried, time.Second},
		"retry later":     {RetryAfter(time.Second, fmt.Errorf("asking: %w", context.DeadlineExceeded)), 1, Retried, time.Second},
		"retry, late":     {RetryAfter(time.Second, context.DeadlineExceeded), 1, Retried, time.Second},
		"poison, retry":   {RetryAfter(time.Second, Poison(other)), 1, Poisoned, 0},
		"bad subject":     {fmt.Errorf("answering: %w", &SubjectError{}), 1, Poisoned, 0},
		"too large":       {fmt.Errorf("answering: %w", &TooLargeError{}), 1, Poisoned, 0},
		"panic":           {fmt.Errorf("step: %w", &PanicError{"index"}), 1, Poisoned, 0},
		"stopping":        {context.Canceled, 100, Retried, 0},
		"unknown":         {other, 1, Retried, 100 * time.Millisecond},
		"unknown, often":  {other, 7, Retried, 2 * time.Second},
		"unknown, always": {other, 8, Poisoned, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if o, after := classify(c.err, c.delivered); o != c.want || after != c.after {
				t.Errorf("%v after %v, want %v after %v", o, after, c.want, c.after)
			}
		})
	}
}

func TestParseAck(t *testing.T) {
	var api *jetstream.APIError
	for name, c := range map[string]struct {
		data string
		seq  uint64
		as   any
	}{
		"quick":      {`{"stream":"S","seq":12}`, 12, nil},
		"and spaced": {`{"stream":"S", "seq":12}`, 12, nil},
		"domain":     {`{"stream":"S","domain":"hub","seq":12}`, 12, nil},
		"duplicate":  {`{"stream":"S", "seq":12,"duplicate": true}`, 12, nil},
		"error":      {`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"S","seq":0}`, 0, &api},
		"zero":       {`{"stream":"S", "seq":0}`, 0, new(error)},
		"not JSON":   {`+OK`, 0, new(error)},
		"empty":      {``, 0, new(error)},
		"quick, odd": {`{"stream":"S", "seq":1x}`, 0, new(error)},
	} {
		t.Run(name, func(t *testing.T) {
			seq, err := parseAck(&nats.Msg{Data: []byte(c.data)})
			if seq != c.seq || (err != nil) != (c.as != nil) || err != nil && !errors.As(err, c.as) {
				t.Errorf("sequence %d, error %v", seq, err)
			}
		})
	}
}

// What a server answers is read the quick way.
func TestQuickAck(t *testing.T) {
	r := newRig(t)
	c, s := r.conn, names(schemas.HopsCore)
	if err := c.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	m, err := c.NATS().RequestWithContext(r.ctx(), s.Subjects.Token("r"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if seq, ok := quickAck(m.Data); seq != 1 || !ok {
		t.Errorf("%s: sequence %d, %v", m.Data, seq, ok)
	}
}

type traceKey struct{}

// tracer carries one string.
type tracer struct{}

func (tracer) Inject(ctx context.Context, h nats.Header) {
	if v, ok := ctx.Value(traceKey{}).(string); ok {
		h.Set("trace", v)
	}
}

func (tracer) Extract(ctx context.Context, h nats.Header) context.Context {
	return context.WithValue(ctx, traceKey{}, h.Get("trace"))
}

func TestTraceContextTravels(t *testing.T) {
	r := newRig(t)
	r.conn.prop = tracer{}
	s, h := names(schemas.HopsUnacked), NewHop(r.conn, schemas.HopsUnacked)
	type seen struct {
		trace  any
		header int
	}
	got := make(chan seen, 1)
	running, err := h.Receive(r.ctx(), receiver(s), func(ctx context.Context, m *Msg) error {
		got <- seen{ctx.Value(traceKey{}), len(m.Header)}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Stop()
	for ctx, want := range map[context.Context]seen{
		context.WithValue(r.ctx(), traceKey{}, "abc"): {"abc", 1},
		r.ctx(): {nil, 0},
	} {
		if err := h.Send(ctx, s.Subjects.Hidden(0), hidden(1)); err != nil {
			t.Fatal(err)
		}
		if g := <-got; g != want {
			t.Errorf("got %+v, want %+v", g, want)
		}
	}
}

// Without its stream an acked hop counts failures and blocks nobody.
func TestAckedFailuresAreCounted(t *testing.T) {
	r := newRig(t)
	h := NewHop(r.conn, schemas.HopsAcked)
	for range 10 {
		if err := h.Send(r.ctx(), "nobody.listens", hidden(1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := flush(r.ctx(), h); err != nil {
		t.Error(err)
	}
	if n := r.obs.failed.Load(); n != 10 {
		t.Errorf("%d failures counted", n)
	}
}

func TestFollowHasNoGaps(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	if err := r.conn.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx())
	defer cancel()
	var last atomic.Uint64
	done := make(chan error)
	go func() {
		done <- r.conn.Follow(ctx, s.Tokens().Name, []string{s.Subjects.AnyToken()}, Place{}, func(m Stored) bool {
			if !last.CompareAndSwap(m.Sequence-1, m.Sequence) {
				t.Errorf("message %d after %d", m.Sequence, last.Load())
			}
			return true
		})
	}()
	for i := range 1500 {
		if i%500 == 250 {
			r.restart()
		}
		if _, err := r.conn.Store(r.ctx(), s.Subjects.Token("r"), hidden(10), nil); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := r.conn.Last(r.ctx(), s.Tokens().Name, s.Subjects.Token("r"))
	if err != nil || stored.Sequence < 1500 {
		t.Fatalf("stored %d, error %v", stored.Sequence, err)
	}
	testkit.Eventually(t, "all followed", func() bool { return last.Load() == stored.Sequence })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := r.conn.Next(r.ctx(), s.Tokens().Name, s.Subjects.Token("r"), stored.Sequence+1); !errors.Is(err, ErrNoMessage) {
		t.Errorf("error %v", err)
	}
}
