package residency

import (
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var hour = Settings{KeepAlive: time.Hour}

// What a plan does not want any more rests until its time, and is warm at once if
// it is wanted before.
func TestKeepAlive(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.plan([]uint32{1})
		h.awaitState(isWarm, false, 0)
		h.awaitWarm(1)
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.awaitState(isWarm, false, 1)
		if began := h.fake.Faults.Began(); len(began) != 2 {
			t.Errorf("loads of %v began", began)
		}
		h.look(nil, time.Now().Add(time.Hour))
		h.awaitGone(1)
		h.awaitPhase(1, device.Cold)
		if h.fake.Phase(0) != device.Warm {
			t.Error("what is wanted has gone")
		}
	})
}

// Nothing rests on a host that leaves.
func TestRestNoMore(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.plan([]uint32{1})
		h.awaitState(isWarm, false, 0)
		h.RestNoMore()
		h.awaitGone(0)
		h.awaitWarm(1)
		h.plan()
		h.awaitGone(1)
		if h.Any() {
			t.Error("the host has functions")
		}
	})
}

// A function that needs room gets that of what was retired first, and no more than it needs.
func TestPressure(t *testing.T) {
	play(t, 3, hour, func(h *host) {
		h.within(3)
		h.plan([]uint32{0}, []uint32{1})
		h.awaitWarm(0)
		h.awaitWarm(1)
		h.plan([]uint32{0})
		h.awaitState(isWarm, false, 1)
		time.Sleep(time.Second)
		h.plan([]uint32{2})
		h.awaitState(isWarm, false, 0)
		h.plan([]uint32{2}, []uint32{3})
		h.awaitWarm(3)
		h.awaitGone(1)
		if want := []string{"warm", "cold", "warm", "warm"}; !slices.Equal(h.fake.Phases(), want) || h.shown(0) == nil {
			t.Errorf("experts %v", h.fake.Phases())
		}
	})
}

// A function that is kept joins without a load when it is wanted warm.
func TestPreWarm(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.planFunctions(h.wanted(kept, 0, 1))
		h.awaitState(isWarm, false, 0, 1)
		h.planFunctions(h.wanted(warm, 0, 1))
		h.awaitWarm(0, 1)
		if began := h.fake.Faults.Began(); len(began) != 2 {
			t.Errorf("loads of %v began", began)
		}
	})
}

// What is kept makes room for what takes rows, and comes back when there is some.
func TestKeptMakesRoom(t *testing.T) {
	play(t, 1, Settings{}, func(h *host) {
		h.within(1)
		h.planFunctions(h.wanted(kept, 0))
		h.awaitState(isWarm, false, 0)
		h.planFunctions(h.wanted(kept, 0), h.wanted(warm, 1))
		h.awaitWarm(1)
		h.awaitState(isRefused, false, 0)
		h.planFunctions(h.wanted(kept, 0))
		h.awaitState(isWarm, false, 0)
	})
}

// A function that is scaled to zero stays warm until no rows have come for its
// time, sleeps, and is loaded again for the next rows.
func TestSleep(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.planFunctions(h.wanted(warm, 0))
		h.awaitWarm(0)
		h.planFunctions(h.wanted(cold, 0))
		if want, _, _, _ := h.state(0); want != cold {
			t.Fatalf("wanted %v", want)
		}
		time.Sleep(2 * retireEvery)
		h.awaitWarm(0)
		h.look(nil, time.Now().Add(time.Hour))
		h.awaitState(isCold, true, 0)
		h.awaitPhase(0, device.Cold)
		h.computes(h.rows(1, 0, 0))
		h.awaitWarm(0)
		if h.fake.Loads(0) != 2 {
			t.Errorf("%d loads", h.fake.Loads(0))
		}
	})
}

// Two functions that sleep and share the room for one take turns.
func TestSleepersTakeTurns(t *testing.T) {
	play(t, 1, hour, func(h *host) {
		h.within(1)
		h.planFunctions(h.wanted(cold, 0), h.wanted(cold, 1))
		h.awaitState(isCold, true, 0)
		h.awaitState(isCold, true, 1)
		for step := range uint64(3) {
			for e := range uint32(2) {
				h.computes(h.rows(step+1, 0, e))
				h.awaitWarm(e)
				h.awaitState(isCold, true, 1-e)
			}
		}
	})
}

// A load that rows wait for is before those of newer plans.
func TestRowsFirst(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		lets := []func(){h.fake.Hold(h.t, 0), h.fake.Hold(h.t, 1)}
		first := []*pb.Function{h.wanted(warm, 0), h.wanted(warm, 1), h.wanted(cold, 3)}
		h.planFunctions(first...)
		h.awaitState(isCold, true, 3)
		h.await("two loads", func() bool { return h.fake.Memory().Running == 2 })
		rows := h.rows(1, 0, 3)
		h.await("a third", func() bool { return h.fake.Memory().Waiting == 1 })
		h.planFunctions(append(first, h.wanted(warm, 2))...)
		h.await("a fourth", func() bool { return h.fake.Memory().Waiting == 2 })
		for _, let := range lets {
			let()
		}
		h.awaitWarm(2)
		h.awaitWarm(3)
		h.computes(rows)
		if began := h.fake.Faults.Began(); began[2].Expert != 3 || began[3].Expert != 2 {
			t.Errorf("loads began in the order %v", began)
		}
	})
}
