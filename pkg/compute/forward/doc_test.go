package forward

import "testing"

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		nanos, threads int
		awake          bool
		want           int
	}{
		{0, 1, true, 1}, {49_999, 1, false, 1}, {50_000, 1, false, 2}, {400_000, 1, false, 20},
		{49_999, 2, false, 1}, {9_999, 2, true, 1}, {10_000, 2, true, 2}, {39_999, 2, true, 2},
		{50_000, 2, false, 2}, {70_000, 2, false, 4}, {400_000, 2, true, 20}, {420_000, 2, true, 22},
		{10_000, 16, true, 2}, {60_000, 16, false, 12}, {100_000, 16, false, 16}, {400_000, 16, true, 32},
	} {
		if got := cut(tc.nanos, tc.threads, tc.awake); got != tc.want {
			t.Errorf("%d threads (awake: %v) get %d ns in %d items, want %d", tc.threads, tc.awake, tc.nanos, got, tc.want)
		}
	}
	if got := (workers{}).parts(1 << 30); got != 1 {
		t.Errorf("without threads there are %d items", got)
	}
}
