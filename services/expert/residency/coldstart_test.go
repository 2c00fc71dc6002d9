package residency

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// A load whose rows all went before it was done is forgotten, however many come after it.
func TestUnusedColdStart(t *testing.T) {
	f := &Function{start: newColdStart()}
	for step := range uint64(maxComputed + 1) {
		if f.stale(&pb.Dispatch{Key: &pb.Key{Step: step}}, time.Now()) {
			t.Fatalf("step %d is stale", step)
		}
	}
	if f.start != nil {
		t.Errorf("%d of its rows are remembered", len(f.start.computed))
	}
}

// However many rows wait for a cold function, they share one load.
func TestOneLoad(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		let := h.fake.Hold(h.t, 1)
		h.planFunctions(h.wanted(cold, 1))
		h.awaitState(isCold, true, 1)
		var all []<-chan error
		for step := range uint64(100) {
			all = append(all, h.rows(step+1, 0, 1))
		}
		h.awaitState(isWarming, true, 1)
		time.Sleep(time.Second)
		let()
		for _, computed := range all {
			h.computes(computed)
		}
		n, waited := h.ColdStarts()
		if h.fake.Loads(1) != 1 || n != 1 || waited < 100*time.Second || h.ByPhase()["warm"] != 1 || h.fake.Memory().Used != devicetest.Bytes {
			t.Errorf("%d loads, %d cold starts of %v, functions %v", h.fake.Loads(1), n, waited, h.ByPhase())
		}
	})
}

// Rows that waited, and were computed for an earlier attempt, are stale; those of the attempt
// itself are not, nor is what comes later.
func TestStale(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		let := h.fake.Hold(h.t, 1)
		h.planFunctions(h.wanted(cold, 1))
		h.awaitState(isCold, true, 1)
		f, _, err := h.Named(0, rig.ID(1))
		if err != nil {
			t.Fatal(err)
		}
		arrived := time.Now()
		let()
		h.awaitWarm(1)
		for i, tc := range []struct {
			attempt uint32
			arrived time.Time
			stale   bool
		}{
			{0, arrived, false}, {1, arrived, true}, {0, arrived, false}, {2, arrived.Add(time.Hour), false}, {3, arrived, false},
		} {
			a, err := h.Rouse(t.Context(), f, &pb.Dispatch{Key: &pb.Key{Step: 1, Attempt: tc.attempt}}, tc.arrived)
			if err != nil || a.Stale != tc.stale {
				t.Errorf("rows %d: stale %v, %v", i, a.Stale, err)
			}
			if !a.Stale {
				h.Done(f, Roused{Waited: true})
			}
		}
	})
}
