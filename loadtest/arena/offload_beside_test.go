package arena

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
)

// What is spent around the devices is all that a step takes but computing and waiting for experts.
func TestAround(t *testing.T) {
	of := map[string]float64{
		"gate_queue": 0.1, "gate_compute": 0.2, "expert_queue": 0.3, "expert_stall": 5, "expert_compute": 0.75, "expert_transfer": 0.05,
		"aggregator_wait": 0.25, "messages": 1, stageOwn: 0.5, stageTotal: 7.65,
	}
	a := around(of, 70, 0.6, 8)
	want := offload.Around{Step: 0.0048, Before: 0.0016, Hops: 0.0005, Held: 0.0002, After: 0.00075}
	for name, off := range map[string]float64{
		"step": a.Step - want.Step, "before": a.Before - want.Before, "hops": a.Hops - want.Hops, "held": a.Held - want.Held, "after": a.After - want.After,
		"all": a.Step + 8*(a.Before+a.Held+a.After+0.0006+0.005) - 0.070,
	} {
		if math.Abs(off) > 1e-12 {
			t.Errorf("%s is off by %v: %+v", name, off, a)
		}
	}
	for _, r := range []*OffloadRun{{Lag: map[string]float64{"decode": 0}}, {}, {Lag: map[string]float64{"decode": 0.5}}} {
		hinted(&a, r, "decode")
	}
	if a.Lag != (offload.Measured{Seconds: 0.25, N: 2}) || a.Lead.N != 0 {
		t.Errorf("hints of two of three runs: %+v", a)
	}
	if a := around(of, 1, 2, 8); a.Step != 0 || a.Held != 0 {
		t.Errorf("%+v", a)
	}
}
