package attention

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		took      time.Duration
		reissues  int
		intervals time.Duration // between two hurries
	}{
		{"patience alone", 1, 0, 0, minPatience, 1, 0},
		{"hurried", 1, 1, 0, minLate, 1, time.Millisecond},
		{"hurried twice at once", 1, 2, 0, minLate, 1, time.Millisecond},
		{"hurried while nothing can be late", 1, 1, 300 * time.Millisecond, 600 * time.Millisecond, 1, time.Millisecond},
		{"hurried late", 1, 1, 0, 700 * time.Millisecond, 1, 700 * time.Millisecond},
		{"the hurried one is lost, too", 2, 1, 0, minLate + minPatience, 2, time.Millisecond},
		{"hurried for ever", 40, 40, 0, 40 * 200 * time.Millisecond, 40, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y, r := newFakeLayer(t, 8)
				y.fault = lost(tc.lost)
				y.x.latency.slow.Store(int64(tc.slow))
				began := time.Now()
				go func() {
					for range tc.hurries {
						time.Sleep(tc.intervals)
						y.x.hurry()
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
				y.x.hurry()
			}
		})
		if _, _, err := layer(ctx, r, 2); err == nil || ctx.Err() != nil {
			t.Errorf("%v after an hour or less, want no answer", err)
		}
	})
}

// Patience follows what layers take, within bounds; re-issues teach nothing.
func TestPatience(t *testing.T) {
	var l latency
	if l.patience() != minPatience {
		t.Errorf("%v at first", l.patience())
	}
	l.observe(maxPatience, 1)
	if l.patience() != minPatience {
		t.Errorf("%v after a re-issue", l.patience())
	}
	l.observe(minPatience, 0)
	if l.patience() != 8*minPatience {
		t.Errorf("%v after a slow layer", l.patience())
	}
	for range 1000 {
		l.observe(0, 0)
	}
	if l.patience() != minPatience {
		t.Errorf("%v after fast layers", l.patience())
	}
	l.observe(10*maxPatience, 0)
	if l.patience() != maxPatience {
		t.Errorf("%v at most", l.patience())
	}
}
