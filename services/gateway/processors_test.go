package gateway

import (
	"context"
	"runtime"
	"testing"
)

func TestCrew(t *testing.T) {
	c := crew{now: 1, most: 6}
	for i, step := range []struct {
		looks int
		used  float64
		want  int
	}{
		{100, 0.6, 1}, {1, 0.8, 2}, {1, 1.9, 4}, {1, 3.9, 6}, {1, 5.9, 6}, // as the load grows
		{200, 2.1, 6}, {49, 1.2, 6}, {1, 1.2, 3}, {49, 0.1, 3}, {1, 2.9, 6}, {49, 0.1, 6}, {1, 0.1, 3}, {50, 0.1, 2}, {50, 0.1, 1}, {200, 0, 1},
	} {
		got := 0
		for range step.looks {
			got = c.next(step.used)
		}
		if got != step.want {
			t.Errorf("step %d: %d processors, want %d", i, got, step.want)
		}
	}
}

// Who stops leaves the process with the processors that it had.
func TestRunCrew(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if runCrew(ctx); runtime.GOMAXPROCS(0) != before {
		t.Errorf("%d processors, before %d", runtime.GOMAXPROCS(0), before)
	}
}
