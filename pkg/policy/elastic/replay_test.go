package elastic

import (
	"slices"
	"testing"
)

// Steps that choose copies are others than those that weigh them, unless there are few.
func TestEverySecondStep(t *testing.T) {
	for _, n := range []int{0, 1, 4*replayLeast - 1, 4 * replayLeast, 4*replayLeast + 1, replayed} {
		steps := make([]step, n)
		for i := range steps {
			steps[i].when = float64(i)
		}
		chosen, weighed := every2nd(steps, 1), every2nd(steps, 0)
		if n < 4*replayLeast {
			if len(chosen) != n || len(weighed) != n {
				t.Errorf("%d steps: %d choose and %d weigh", n, len(chosen), len(weighed))
			}
			continue
		}
		both := slices.Concat(chosen, weighed)
		slices.SortFunc(both, func(a, b step) int { return int(a.when - b.when) })
		if !slices.EqualFunc(both, steps, func(a, b step) bool { return a.when == b.when }) {
			t.Errorf("%d steps: %d choose and %d weigh", n, len(chosen), len(weighed))
		}
	}
}
