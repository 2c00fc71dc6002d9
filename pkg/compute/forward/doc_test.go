package forward

import "testing"

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		nanos, threads, awake, want int
	}{
		{0, 1, 1, 1}, {49_999, 1, 0, 1}, {50_000, 1, 0, 2}, {400_000, 1, 0, 20},
		{49_999, 2, 0, 1}, {1_999, 2, 1, 1}, {2_000, 2, 1, 2}, {39_999, 2, 1, 2},
		{50_000, 2, 0, 2}, {70_000, 2, 0, 4}, {400_000, 2, 1, 20}, {420_000, 2, 1, 22},
		{10_000, 16, 15, 10}, {10_000, 16, 2, 3}, {30_000, 16, 15, 16}, {60_000, 16, 0, 16}, {400_000, 16, 15, 32},
	} {
		if got := cut(tc.nanos, tc.threads, tc.awake); got != tc.want {
			t.Errorf("%d threads (awake: %v) get %d ns in %d items, want %d", tc.threads, tc.awake, tc.nanos, got, tc.want)
		}
	}
	if got := (workers{}).parts(1 << 30); got != 1 {
		t.Errorf("without threads there are %d items", got)
	}
}
