package sim

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/meter"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// An expert that its keep-alive lets go, and that rows bring back, comes to what a host meters
// whose residency has the same events at the same times.
func TestMemoryAsHostsMeterIt(t *testing.T) {
	m := tiny(1, 1)
	s := settings(m, 1)
	s.KeepAlive = 2
	r := run(t, loads(t, m, []uint32{5}, []uint32{5}), s, Policy{Name: "alive"})

	now, live, u := 0.0, meter.New(1), &meter.Unit{}
	tier := residency.New(residency.Settings{Watch: func(_ unit.Unit, bytes int64, is residency.Phase) {
		switch is {
		case residency.Loading:
			live.Take(u, 0, bytes, now)
		case residency.Held:
			live.Hold(u, now)
		case residency.Cold:
			live.Drop(u, now)
		case residency.Queued, residency.Evicting:
		}
	}})
	serve := func(came, takes float64) {
		a := live.Begin(u, came, now)
		now += takes
		live.End(u, a, now)
	}
	const takes = 5 * 2e-3 // of five rows
	live.Place(u, 0, 1e9, now)
	serve(now, takes)
	now += s.KeepAlive + 5*2*1e-3 // the layer ends when rows are back
	live.Drop(u, now)
	now = 10
	live.ColdStart()
	tier.Want(residency.Want{Unit: unit.Expert(0, 0), Bytes: 1e9, Urgency: residency.Demanded})
	now += 0.25 + 1
	tier.Loaded(unit.Expert(0, 0))
	serve(10, takes)
	want := live.Read(r.Elapsed)
	got := r.Memory
	for _, pair := range [][2]*float64{
		{&got.Loading, &want.Loading}, {&got.Kept, &want.Kept}, {&got.Serving, &want.Serving}, {&got.Taken, &want.Taken}, {&got.Seconds, &want.Seconds},
	} {
		if math.Abs(*pair[0]-*pair[1]) < 1e-9 {
			*pair[0] = *pair[1]
		}
	}
	if got != want || want.Loading < 1 || want.Loads != 1 {
		t.Errorf("simulated %+v, metered %+v", got, want)
	}
}
