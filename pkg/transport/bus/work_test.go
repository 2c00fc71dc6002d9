package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// unsettled is how many messages a work queue still has.
func (r *rig) unsettled(s schemas.Streams) uint64 {
	info, err := r.conn.js.Stream(r.ctx(), s.Sequences().Name)
	if err != nil {
		return 1
	}
	return info.CachedInfo().State.Msgs
}

// Errors are tried again by the same replica, which keeps the delivery longer
// than AckWait: its count stays 1, and nobody else gets it.
func TestWorkKeepsItsDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, 200*time.Millisecond)
	r.store(s, 1)
	d := r.pull(q, 1, 1)[0]
	attempts := 0
	err := d.Work(r.ctx(), func() error {
		if attempts++; attempts > 4 {
			return nil
		}
		return []error{errors.New("unknown"), context.Canceled, RetryAfter(300*time.Millisecond, context.DeadlineExceeded)}[attempts%3]
	})
	if err != nil || attempts != 5 {
		t.Errorf("%d attempts, error %v", attempts, err)
	}
	testkit.Eventually(t, "it is settled", func() bool { return r.unsettled(s) == 0 })
	if n := r.obs.redelivered.Load(); n != 0 {
		t.Errorf("%d redeliveries", n)
	}
}

func TestWorkEnds(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	r.store(s, 2)
	for i, do := range []func() error{
		func() error { return Poison(errors.New("unreadable")) },
		func() error { panic("index out of range") },
	} {
		d := r.pull(q, 1, 1)[0]
		if err := d.Work(r.ctx(), do); err != nil {
			t.Error(err)
		}
		testkit.Eventually(t, "it is settled", func() bool { return r.unsettled(s) == uint64(1-i) })
	}
	if n := r.obs.panicked.Load(); n != 1 {
		t.Errorf("%d panics counted", n)
	}
}

// Who knows that others can do the work gives it back, and is tried no more itself.
func TestWorkElsewhere(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	r.store(s, 1)
	attempts := 0
	err := r.pull(q, 1, 1)[0].Work(r.ctx(), func() error {
		attempts++
		return Elsewhere(time.Millisecond, errors.New("not mine"))
	})
	if d := r.pull(q, 1, 1)[0]; err != nil || attempts != 1 || d.Delivered != 2 {
		t.Errorf("%d attempts, error %v, then delivery %d", attempts, err, d.Delivered)
	}
}

// A replica that stops gives its work to the next one at once, and the count
// tells how many had it.
func TestWorkGivesBack(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	q := r.queue(s, time.Minute)
	r.store(s, 1)
	for n := 1; n <= 3; n++ {
		d := r.pull(q, 1, 1)[0]
		if d.Delivered != n {
			t.Errorf("delivery %d: %+v", n, d)
		}
		ctx, cancel := context.WithCancel(r.ctx())
		if err := d.Work(ctx, func() error { cancel(); return ctx.Err() }); err != nil {
			t.Error(err)
		}
	}
}

// A message whose handler panics is settled, and the next one is handled.
func TestPanickingHandler(t *testing.T) {
	for _, mode := range allHops {
		for _, concurrency := range []int{1, 3} {
			t.Run(string(mode), func(t *testing.T) {
				r := newRig(t)
				s, h := names(mode), NewHop(r.conn, mode)
				rc := receiver(s)
				rc.Concurrency = concurrency
				var calls atomic.Int64
				running, err := h.Receive(r.ctx(), rc, func(context.Context, *Msg) error {
					if calls.Add(1) <= 3 {
						panic("index out of range")
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				defer running.Stop()
				for range 5 {
					if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(1)); err != nil {
						t.Fatal(err)
					}
				}
				testkit.Eventually(t, "two handled, three poisoned", func() bool {
					return r.obs.handled[Done].Load() == 2 && r.obs.panicked.Load() == 3 && r.obs.handled[Poisoned].Load() == 3
				})
			})
		}
	}
}

// What comes on a subscription, from a bucket or in a stream that is followed
// ends no process either.
func TestPanickingListeners(t *testing.T) {
	r := newRig(t)
	s := names(schemas.HopsCore)
	if err := r.conn.Ensure(r.ctx(), 1, s.Tokens()); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	oncePanic := func() bool {
		if calls.Add(1)%2 == 1 {
			panic("index out of range")
		}
		return false
	}
	sub, err := r.conn.Subscribe("a", "", func(*nats.Msg) { oncePanic() })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	stop, err := r.conn.FollowKeys("b", "k", func(string, []byte, bool) { oncePanic() })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i, subject := range []string{"a", KeySubject("b", "k")} {
		for n := range int64(2) {
			if err := r.conn.SendMsg(&nats.Msg{Subject: subject}); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "handled", func() bool { return calls.Load() == int64(2*i)+n+1 })
		}
	}
	for range 2 {
		if _, err := r.conn.Store(r.ctx(), s.Subjects.Token("r"), hidden(1), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.conn.Follow(r.ctx(), s.Tokens().Name, []string{s.Subjects.AnyToken()}, Place{}, func(Stored) bool { return oncePanic() }); err != nil {
		t.Error(err)
	}
	if n := r.obs.panicked.Load(); calls.Load() != 6 || n != 3 {
		t.Errorf("%d calls, %d panics", calls.Load(), n)
	}
}
