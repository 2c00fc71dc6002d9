package attention

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// A step's messages say for how long anybody waits for it, and it is given up then.
func TestRemainingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y, r := newFakeLayer(t, 8)
		y.fault = lost(math.MaxUint32)
		mb := &microbatch{end: time.Now().Add(2 * minPatience)}
		r.begin(t.Context(), nil, nil, mb.end)
		ctx, stop := mb.until(t.Context())
		defer stop()
		began := time.Now()
		_, _, err := layer(ctx, r, 2)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), errPassed) || took != 2*minPatience {
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

// A step is waited for as long as the last of its sequences is.
func TestLastDeadline(t *testing.T) {
	now := time.Now()
	with := func(deadlines ...time.Time) (parts []part) {
		for _, d := range deadlines {
			parts = append(parts, part{s: &sequence{deadline: d}})
		}
		return parts
	}
	for i, tc := range []struct {
		parts []part
		want  time.Time
	}{
		{with(now), now}, {with(now, now.Add(2), now.Add(1)), now.Add(2)}, {with(now, time.Time{}), time.Time{}}, {with(time.Time{}, now), time.Time{}},
	} {
		if got := lastDeadline(tc.parts); !got.Equal(tc.want) {
			t.Errorf("%d: %v, want %v", i, got, tc.want)
		}
	}
}
