package layer

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// lost is a fault that swallows the first attempts.
func lost(attempts uint32) func(*pb.Hidden) ([]*pb.Block, error, bool) {
	return func(h *pb.Hidden) ([]*pb.Block, error, bool) { return nil, nil, h.Key.Attempt < attempts }
}

// When somebody falls silent, what may be with it goes out again at once, but
// not before a layer can be late, and forty times are no reason to give up.
func TestHurry(t *testing.T) {
	for _, tc := range []struct {
		name      string
		lost      uint32
		hurries   int
		slow      time.Duration // a layer's usual time
		faults    time.Duration // and that of one in twenty
		took      time.Duration
		reissues  int
		intervals time.Duration // between two hurries
	}{
		{"patience alone", 1, 0, 0, 0, minPatience, 1, 0},
		{"patience with fast layers", 1, 0, time.Millisecond, 0, minLate, 1, 0},
		{"patience with fast layers, twice", 2, 0, time.Millisecond, 0, 2 * minLate, 2, 0},
		{"hurried", 1, 1, 0, 0, minLate, 1, time.Millisecond},
		{"hurried twice at once", 1, 2, 0, 0, minLate, 1, time.Millisecond},
		{"hurried among faults", 1, 1, time.Millisecond, time.Second, minLate, 1, time.Millisecond},
		{"hurried while nothing can be late", 1, 1, 300 * time.Millisecond, 0, late(300 * time.Millisecond), 1, time.Millisecond},
		{"hurried late", 1, 1, 0, 0, 700 * time.Millisecond, 1, 700 * time.Millisecond},
		{"the hurried one is lost, too", 2, 1, 0, 0, minLate + minPatience, 2, time.Millisecond},
		{"hurried for ever", 40, 40, 0, 0, 40 * 200 * time.Millisecond, 40, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, r := newFakeLayer(t, 8)
				y.fault = lost(tc.lost)
				if tc.slow > 0 {
					learn(y.x.latency, 2, tc.slow)
				}
				if tc.faults > 0 {
					teach(y.x.latency, 2, tc.faults, 5)
				}
				began := time.Now()
				go func() {
					for range tc.hurries {
						time.Sleep(tc.intervals)
						y.x.hurryAll()
					}
				}()
				checkLayer(t, r, 2)
				if took := time.Since(began); took != tc.took {
					t.Errorf("took %v, want %v", took, tc.took)
				}
				if n := y.count() - 1; n != tc.reissues {
					t.Errorf("%d re-issues, want %d", n, tc.reissues)
				}
			})
		})
	}
}

// A layer that never answers is given up, however often somebody falls silent.
func TestHurryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		y.fault = lost(math.MaxUint32)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		var flapping sync.WaitGroup
		defer flapping.Wait()
		defer cancel()
		flapping.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(200 * time.Millisecond)
				y.x.hurryAll()
			}
		})
		if _, _, err := layer(ctx, r, 2); err == nil || ctx.Err() != nil {
			t.Errorf("%v after an hour or less, want no answer", err)
		}
	})
}

// learn lets layer 3 take so long, often enough to be believed.
func learn(l *latency, rows int, took time.Duration) { teach(l, rows, took, 100) }

func teach(l *latency, rows int, took time.Duration, times int) {
	for range times {
		l.observe(rows, &ledger.Layer{Layer: 3, Total: took, By: [ledger.Stages]time.Duration{ledger.Messages: took}}, 0)
	}
}

// late is when a layer is late that takes so long.
func late(took time.Duration) time.Duration {
	l := newLatency()
	learn(l, 2, took)
	return l.limits(3, 2).early
}

// Patience follows what layers take, within bounds, and not what others have
// waited for: a cold function's weights, or an attempt that was lost.
func TestLimits(t *testing.T) {
	l := newLatency()
	if got := l.limits(3, 1); got != (limits{early: minPatience, calm: minPatience, hurried: minLate}) {
		t.Errorf("%+v at first", got)
	}
	by := [ledger.Stages]time.Duration{ledger.ExpertStall: time.Minute, ledger.ExpertCompute: 40 * time.Millisecond, ledger.Messages: 5*time.Second + 60*time.Millisecond}
	for range 100 {
		l.observe(1, &ledger.Layer{Layer: 3, By: by}, 5*time.Second)
	}
	got := l.limits(3, 1)
	if got.early < 200*time.Millisecond || got.early > 300*time.Millisecond || got.hurried != got.early || got.calm != minPatience {
		t.Errorf("%+v after layers of 100 ms", got)
	}
	learn(l, 1, time.Second)
	if got = l.limits(3, 1); got.calm != 2*got.early || got.early < 2*time.Second {
		t.Errorf("%+v after layers of a second", got)
	}
	learn(l, 1, time.Minute)
	if got = l.limits(3, 1); got.early != maxPatience || got.calm != maxPatience {
		t.Errorf("%+v after layers of a minute", got)
	}
}

// The attempts begin as fast as layers come back, bridge the time until a dead
// neighbour is replaced at an even pace, and last half a minute at least.
func TestPauses(t *testing.T) {
	for _, l := range []limits{{early: minLate, calm: minPatience}, {early: minPatience, calm: minPatience}, {early: maxPatience, calm: maxPatience}} {
		at := l.early
		for attempt := uint32(1); attempt <= maxAttempts; attempt++ {
			pause := l.pause(attempt)
			if at < 4*time.Second && pause > l.calm {
				t.Errorf("%v: attempt %d, %v after the first: a pause of %v", l.early, attempt, at, pause)
			}
			at += pause
		}
		if at < 30*time.Second {
			t.Errorf("%v: given up after %v", l.early, at)
		}
	}
}

// Without a budget, rows wait as long as where nothing is known: a replica whose
// layers are all late sends few of them again.
func TestPostpone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		learn(y.x.latency, 2, time.Millisecond)
		for y.x.latency.spend() {
		}
		y.fault = lost(1)
		began := time.Now()
		checkLayer(t, r, 2)
		if took := time.Since(began); took != minPatience {
			t.Errorf("sent again after %v, want %v", took, minPatience)
		}
	})
}

// A process that did not run when rows were due reads its messages first.
func TestExcuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWait(limits{early: minLate, calm: minPatience})
		defer w.timer.Stop()
		time.Sleep(minLate + starved)
		for i, want := range []bool{true, false} {
			if got := w.excuse(); got != want {
				t.Errorf("look %d: %v", i, got)
			}
		}
		if due := w.due.Sub(w.sent); due != 2*minLate+starved {
			t.Errorf("due after %v", due)
		}
		w.next(w.limits)
		if w.excuse() {
			t.Error("what is in time needs no excuse")
		}
	})
}

// An answer that came late teaches how long layers take, so that the next ones are
// given that time.
func TestLateAnswersTeach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 300 * time.Millisecond
		y, r := newFakeLayer(t, 8)
		learn(y.x.latency, 2, time.Millisecond)
		y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
			time.AfterFunc(takes, func() { _ = y.deliver(twice(h)) })
			return nil, nil, true
		}
		for range 20 {
			r.Begin(t.Context(), Step{})
			checkLayer(t, r, 2)
		}
		r.Begin(t.Context(), Step{})
		before := y.count()
		checkLayer(t, r, 2)
		if n := y.count() - before; n != 1 {
			t.Errorf("sent %d times, when all layers take %v", n, takes)
		}
	})
}

// Rows that a host leaves to others go to the next one at once, a few times; then
// they wait as others do. Nobody else is suspected for it.
func TestDeclined(t *testing.T) {
	for declines, want := range map[uint32]time.Duration{1: 0, maxDeclines: 0, maxDeclines + 1: minPatience} {
		synctest.Test(t, func(t *testing.T) {
			y, r := newFakeLayer(t, 8)
			y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) {
				elsewhere := &pb.Block{Key: h.Key, Error: &pb.Error{Code: wire.Elsewhere, Message: "no room"}}
				old := change(elsewhere, func(k *pb.Key) { k.Attempt-- }) // of an attempt that is over
				return []*pb.Block{old, elsewhere}, nil, h.Key.Attempt < declines
			}
			began := time.Now()
			checkLayer(t, r, 2)
			if took := time.Since(began); took != want || y.count() != int(declines)+1 {
				t.Errorf("%d declines: %v and %d messages, want %v", declines, took, y.count(), want)
			}
			if late := int(want / minPatience); y.to.suspected != late {
				t.Errorf("%d declines: suspected %d times", declines, y.to.suspected)
			}
		})
	}
}
