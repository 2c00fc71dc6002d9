package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// newLateness is of a model with ten layers.
func newLateness() *Lateness {
	return &Lateness{Shape: &Shape{Identity: Identity{Model: 7}, MoE: make([]bool, 10)}}
}

// What a worker has left behind is late, and nothing of any other worker.
func TestLateness(t *testing.T) {
	l := newLateness()
	now := time.Unix(1000, 0)
	for i, step := range []struct {
		owner       string
		microbatch  uint32
		step        uint64
		layer       uint32
		after       time.Duration
		late        bool
		description string
	}{
		{"a", 0, 5, 2, 0, false, "the first one"},
		{"a", 0, 5, 2, 0, false, "another part, or attempt"},
		{"a", 0, 5, 3, 0, false, "the next layer"},
		{"a", 0, 5, 2, 0, true, "the one before again"},
		{"a", 0, 4, 7, 0, true, "a step before"},
		{"a", 1, 4, 7, 0, false, "another worker"},
		{"b", 0, 4, 7, 0, false, "another replica"},
		{"a", 0, 6, 0, 0, false, "the next step"},
		{"a", 0, 5, 9, 0, true, "the step before again"},
		{"a", 0, 1 << 60, 0, 0, false, "a claim"},
		{"a", 0, 7, 0, believed - 1, true, "the worker goes on"},
		{"a", 0, 7, 0, 1, false, "it is believed again"},
		{"a", 0, 6, 0, 0, true, "and from then on"},
	} {
		now = now.Add(step.after)
		err := l.Check(&pb.Key{Model: 7, Owner: step.owner, Microbatch: step.microbatch, Step: step.step, Layer: step.layer}, now, now)
		if (err != nil) != step.late || err != nil && !errors.Is(err, ErrLate) {
			t.Errorf("%d, %s: %v", i, step.description, err)
		}
	}
	if !errors.Is(ErrLate, context.DeadlineExceeded) {
		t.Error("the bus does not know that it is late")
	}
}

// The time that is left goes down with the time that passes, and none is late.
func TestRemains(t *testing.T) {
	for _, tc := range []struct {
		left   uint32
		passed time.Duration
		want   uint32
		late   bool
	}{
		{0, time.Hour, 0, false}, {100, 0, 100, false}, {100, -time.Second, 100, false}, {100, 30 * time.Millisecond, 70, false},
		{100, 99*time.Millisecond + 999*time.Microsecond, 1, false}, {100, 100 * time.Millisecond, 100, true}, {100, time.Hour, 100, true},
	} {
		now := time.Unix(1000, 0)
		k := &pb.Key{RemainingMs: tc.left}
		if err := newLateness().Check(k, now.Add(-tc.passed), now); (err != nil) != tc.late || k.RemainingMs != tc.want {
			t.Errorf("%d ms after %v: %v, %d left", tc.left, tc.passed, err, k.RemainingMs)
		}
	}
	if err := newLateness().Check(nil, time.Time{}, time.Now()); err != nil {
		t.Error("without a key", err)
	}
}

// However many workers there seem to be, few are remembered.
func TestLatenessIsBounded(t *testing.T) {
	l := newLateness()
	now := time.Unix(1000, 0)
	for i := range 3 * maxWorkers {
		if err := l.Check(&pb.Key{Model: 7, Owner: fmt.Sprint(i)}, now, now); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.workers); n > maxWorkers {
		t.Errorf("%d workers", n)
	}
}

// What cannot be a worker's place moves none.
func TestNoPlace(t *testing.T) {
	l, now := newLateness(), time.Unix(1000, 0)
	for _, k := range []*pb.Key{
		nil, {Model: 7, Owner: "a", Step: 9, Layer: 10}, {Model: 8, Owner: "a", Step: 9}, {Model: 7, Owner: strings.Repeat("a", 1<<10)},
		{Model: 7, Owner: "a", Layer: 1},
	} {
		if err := l.Check(k, now, now); err != nil {
			t.Errorf("%v: %v", k, err)
		}
	}
	if len(l.workers) != 1 {
		t.Errorf("%d workers", len(l.workers))
	}
}
