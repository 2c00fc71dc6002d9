package layer

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A block that comes while its layer is given up changes nothing of the next one.
func TestBlockOfAGivenUpLayer(t *testing.T) {
	y, r := newFakeLayer(t, 8)
	var late *pb.Block
	y.fault = func(h *pb.Hidden) ([]*pb.Block, error, bool) { late = twice(h); return nil, nil, true }
	given, up := context.WithCancel(t.Context())
	up()
	if _, _, err := layer(given, r, 2); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	take := func() { _ = r.take(late) } // who waits for it was found before
	take()
	if len(r.Layers()) > 0 {
		t.Errorf("it counts as a layer of its step: %v", r.Layers())
	}
	var coming sync.WaitGroup
	coming.Go(take)
	r.Begin(t.Context(), Step{})
	coming.Wait()
	if len(r.Layers()) > 0 {
		t.Errorf("it counts as a layer of the next step: %v", r.Layers())
	}
}

// A step's messages say for how long anybody waits for it, and it is given up then.
func TestRemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		y.fault = lost(math.MaxUint32)
		end := time.Now().Add(2 * minPatience)
		r.Begin(t.Context(), Step{End: end})
		ctx, stop := context.WithDeadline(t.Context(), end)
		defer stop()
		began := time.Now()
		_, _, err := layer(ctx, r, 2)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 2*minPatience {
			t.Errorf("%v after %v", err, took)
		}
		for i, want := range []time.Duration{2 * minPatience, minPatience} {
			if got := y.sent[i].Key.RemainingMs; int64(got) != want.Milliseconds() {
				t.Errorf("attempt %d says %d ms, want %v", i, got, want)
			}
		}
	})
}

// The time that messages say fits them, and is not over.
func TestRemainingBounds(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		end  time.Time
		want uint32
	}{
		{time.Time{}, 0}, {now.Add(time.Second), 1000}, {now, 1}, {now.Add(-time.Hour), 1}, {now.Add(math.MaxInt64), math.MaxUint32},
	} {
		if got := (&pass{end: tc.end}).remaining(now); got != tc.want {
			t.Errorf("until %v: %d ms, want %d", tc.end.Sub(now), got, tc.want)
		}
	}
}
