package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A step is waited for as long as the last of its sequences is.
func TestLastDeadline(t *testing.T) {
	now := time.Now()
	with := func(deadlines ...time.Time) (parts []part) {
		for _, d := range deadlines {
			parts = append(parts, part{s: &Sequence{lifetime: lifetime{deadline: d}}})
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

// A step of sequences that all have a deadline ends with the last one.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mb := &microbatch{end: time.Now().Add(time.Second)}
		ctx, stop := mb.until(t.Context())
		defer stop()
		began := time.Now()
		<-ctx.Done()
		if took := time.Since(began); took != time.Second || !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), errPassed) {
			t.Errorf("%v by %v after %v", ctx.Err(), context.Cause(ctx), took)
		}
	})
	ctx, stop := (&microbatch{}).until(t.Context())
	defer stop()
	if _, ends := ctx.Deadline(); ends {
		t.Error("a step without an end has one")
	}
}
