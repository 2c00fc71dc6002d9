package elastic

import (
	"runtime"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// However many processors decide side by side, the plan is the same.
func TestSideBySide(t *testing.T) {
	for _, scaling := range []string{"moeless", "eplb", "moeless+lean"} {
		alone, many := newFleetOf(t, scaling, 2*sideBySide+3, 16, 8, plan.ByHost), newFleetOf(t, scaling, 2*sideBySide+3, 16, 8, plan.ByHost)
		for range 4 {
			for n, y := range map[int]*large{1: alone, 8: many} {
				func() {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
					y.decide(t)
				}()
				y.rows(t)
			}
			for layer, in := range alone.known.InForce {
				if got := many.known.InForce[layer]; !plan.Same(in.LayerPlan, got.LayerPlan) || in.Reason != got.Reason {
					t.Fatalf("%s, layer %d: %v\nalone: %v", scaling, layer, got, in)
				}
			}
		}
	}
}

// Samples come in while a decision is made.
func TestObserveWhileDeciding(t *testing.T) {
	y := newFleetOf(t, "moeless+lean", 8, 16, 8, plan.ByHost)
	teller := &large{core: y.core, known: y.known}
	var telling sync.WaitGroup
	telling.Go(func() {
		for range 10 {
			teller.rows(t)
			y.core.Computed(teller.now, 1e9*float64(teller.turn)) // hosts have computed as much
		}
	})
	for range 10 {
		y.decide(t)
	}
	telling.Wait()
	if c := y.core.Counts(); c.Taken != 10*8*steps {
		t.Errorf("%+v", c)
	}
}
