package residency

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// serves reports whether the host serves its plan.
func (h *host) serves() bool {
	select {
	case <-h.Serving():
		return true
	default:
		return false
	}
}

// A function is served as soon as its experts are loaded, whatever others take.
func TestSlowFunction(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		let := h.fake.Hold(h.t, 1)
		h.plan([]uint32{0, 1}, []uint32{2}, []uint32{3})
		h.awaitWarm(2)
		h.awaitWarm(3)
		h.awaitState(isWarming, false, 0, 1)
		if told := h.Remaining(); h.serves() || !strings.Contains(told, "1 of 3, among them function "+rig.ID(0, 1)+" of layer 0") {
			t.Errorf("without expert 1: serves %v, %q remain", h.serves(), told)
		}
		if p, want := h.Progress(), fmt.Sprintf("%d of %d bytes are loaded (75 %%, ", 3*devicetest.Bytes, 4*devicetest.Bytes); !strings.HasPrefix(p.String(), want) {
			t.Errorf("%v, want %s", p, want)
		}
		let()
		h.awaitWarm(0, 1)
		h.await("it serves", h.serves)
		if told := h.Remaining(); told != "" {
			t.Errorf("%q remain", told)
		}
	})
}

// A newer plan cancels the loads that it does not want and lets go on what it wants.
func TestOvertake(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.fake.Hold(h.t, 0)
		let := h.fake.Hold(h.t, 1)
		h.plan([]uint32{0}, []uint32{1})
		h.await("both loads", func() bool { return len(h.fake.Faults.Began()) == 2 })
		h.plan([]uint32{1, 2})
		h.awaitPhase(0, device.Cold)
		let()
		h.awaitWarm(1, 2)
		if began := h.fake.Faults.Began(); len(began) != 3 || h.shown(0) != nil {
			t.Errorf("loads of %v began", began)
		}
	})
}

// An expert that moves from one function to another is never loaded again, and
// the old function's end does not take it away.
func TestExpertStays(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.plan([]uint32{0, 1})
		h.awaitWarm(0, 1)
		h.plan([]uint32{1, 2})
		h.awaitWarm(1, 2)
		h.awaitPhase(0, device.Cold) // no gate uses the old function
		if h.fake.Phase(1) != device.Warm || len(h.fake.Faults.Began()) != 3 {
			t.Errorf("experts %v, loads of %v began", h.fake.Phases(), h.fake.Faults.Began())
		}
	})
}

// A function goes when every gate uses a plan of its layer without it.
func TestDrop(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		acknowledge := h.gate()
		acknowledge(h.plan([]uint32{0}))
		h.awaitWarm(0)
		second := h.plan([]uint32{1})
		h.awaitWarm(1)
		time.Sleep(2 * retireEvery)
		if h.fake.Phase(0) != device.Warm || h.shown(0) == nil {
			t.Fatalf("experts %v", h.fake.Phases())
		}
		acknowledge(second)
		h.awaitGone(0)
		h.awaitPhase(0, device.Cold)
		if h.fake.Phase(1) != device.Warm {
			t.Errorf("experts %v", h.fake.Phases())
		}
	})
}

// A function that is wanted again before it was dropped is not dropped the next
// time that a plan goes on without it, while a gate uses it.
func TestWantedAgain(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		acknowledge := h.gate()
		acknowledge(h.plan([]uint32{0}))
		h.awaitWarm(0)
		h.table.Lock()
		f := h.table.functions[rig.ID(0)]
		f.want, f.drop = nothing, true // its keeper is busy
		h.table.Unlock()
		acknowledge(h.plan([]uint32{0}, []uint32{1}))
		h.awaitWarm(1)
		h.plan([]uint32{2})
		h.awaitWarm(2)
		if want, _, drop, joined := h.state(0); want != nothing || drop || !joined {
			t.Errorf("wanted %v, to be dropped: %v, joined: %v, before the gate has another plan", want, drop, joined)
		}
	})
}

// A function that moves to another host stays until it is warm there.
func TestMove(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.planFunctions(plan.Function(0, []uint32{0}, "there"))
		if want, _, _, _ := h.state(0); want != nothing {
			t.Fatalf("wanted %v", want)
		}
		time.Sleep(2 * retireEvery)
		if h.shown(0).GetPhase() != isWarm {
			t.Fatal("it went before another host took its rows")
		}
		h.elsewhere(rig.ID(0))
		h.awaitGone(0)
	})
}

// What a plan wants kept is loaded and takes no rows; what it wants cold takes
// rows, which load it.
func TestKeptAndCold(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.planFunctions(h.wanted(kept, 0), h.wanted(cold, 1))
		h.awaitState(isWarm, false, 0)
		h.awaitState(isCold, true, 1)
		h.awaitPhase(1, device.Cold)
		h.computes(h.rows(1, 0, 1))
		h.awaitWarm(1)
		h.planFunctions(h.wanted(warm, 0), h.wanted(kept, 1))
		h.awaitWarm(0)
		h.awaitState(isWarm, false, 1)
	})
}

// A function that is only to be kept here takes rows until another host does.
func TestKeptServesOn(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		moved := h.wanted(kept, 0)
		moved.Placements = append(moved.Placements, &pb.Placement{Host: "there", Want: warm})
		h.planFunctions(moved)
		if want, _, _, _ := h.state(0); want != kept {
			t.Fatalf("wanted %v", want)
		}
		time.Sleep(2 * retireEvery)
		if f := h.shown(0); f.GetPhase() != isWarm || !f.Joined {
			t.Fatalf("%v before another host takes its rows", f)
		}
		h.elsewhere(moved.Id)
		h.awaitState(isWarm, false, 0)
	})
}

// Rows that wait for a function whose experts do not fit go back when it is dropped.
func TestDroppedWhileAwaited(t *testing.T) {
	play(t, 1, Settings{}, func(h *host) {
		asleep := h.wanted(cold, 1)
		h.planFunctions(h.wanted(warm, 0), asleep)
		h.awaitWarm(0)
		h.awaitState(isCold, true, 1)
		ended := h.rows(1, 0, 1)
		h.awaitState(isRefused, true, 1)
		h.plan([]uint32{0})
		h.awaitGone(1)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "dropped") {
			t.Errorf("%v, want that it was dropped", err)
		}
	})
}

// A function that moved to another host keeps its group; a plan of another layer says
// nothing of it.
func TestPlaces(t *testing.T) {
	l, err := plan.Rules{MoELayers: []int{3}, Experts: 3}.Check(&pb.LayerPlan{Layer: 3, Functions: []*pb.Function{
		plan.Function(3, []uint32{0}, "there"), plan.Function(3, []uint32{1}, "here"), plan.Function(3, []uint32{2}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := newPlans()
	if n := p.adopt(l, "here"); n != 1 {
		t.Errorf("%d functions are wanted here", n)
	}
	var got []bool
	for _, spec := range l.Functions {
		got = append(got, p.places(&Function{layer: 3, spec: spec}))
	}
	if want := []bool{true, true, false}; !slices.Equal(got, want) {
		t.Errorf("planned: %v, want %v", got, want)
	}
	if p.places(&Function{layer: 4, spec: l.Functions[0]}) {
		t.Error("planned in another layer")
	}
}
