package residency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/devicetest"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// What does not fit at all is told with both numbers and logged once; what fits is
// served, and what was refused as soon as there is room.
func TestRefuse(t *testing.T) {
	play(t, 2, Settings{}, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.plan([]uint32{0}, []uint32{1, 2})
		h.awaitState(isRefused, false, 1, 2)
		if f := h.shown(1, 2); f.NeedBytes != 2*devicetest.Bytes || f.RoomBytes != devicetest.Bytes || f.Reason == "" {
			t.Errorf("%v", f)
		}
		h.awaitWarm(0)
		if log := h.logged(); strings.Count(log, "need_bytes=200 room_bytes=100") != 1 {
			t.Errorf("told another number of times than one:\n%s", log)
		}
		h.plan([]uint32{1, 2})
		h.awaitWarm(1, 2)
	})
}

// A device with less memory than its budget says what it can hold.
func TestOutOfMemory(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.fake.Faults.Fail(forward.ExpertID{Expert: 1}, device.ErrOutOfMemory)
		h.plan([]uint32{0}, []uint32{1})
		h.awaitState(isRefused, false, 1)
		h.await("its budget", func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.budget == devicetest.Bytes
		})
	})
}

// A load that fails is tried again; it is no refusal.
func TestFailedLoad(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		broken := forward.ExpertID{Expert: 1}
		h.fake.Faults.Fail(broken, errors.New("a broken disk"))
		h.plan([]uint32{0}, []uint32{1})
		h.await("two tries", func() bool { return h.fake.Loads(1) >= 2 })
		h.awaitState(isWarming, false, 1)
		if log := h.logged(); strings.Count(log, "a broken disk") != 1 {
			t.Errorf("%v:\n%s", h.shown(1), log)
		}
		h.awaitWarm(0)
		h.fake.Faults.Fail(broken, nil)
		h.awaitWarm(1)
	})
}

// A host refuses what it can never serve, says why, and serves the rest of the plan.
func TestUnable(t *testing.T) {
	play(t, 0, Settings{}, func(h *host) {
		all := h.wanted(warm, 0, 1, 2, 3)
		united, other := plan.UnitedFunction(0, plan.Bundle{Way: 2, ID: 7}, []uint32{0, 1}, h.common.Host), plan.UnitedFunction(0, plan.Bundle{Way: 4, ID: 7}, []uint32{0}, h.common.Host)
		all.Transfer = plan.Indirect // however rows come
		h.planFunctions(all, united, other)
		h.awaitWarm(0, 1, 2, 3)
		for id, why := range map[string]string{united.Id: "no weights of united experts of way 2", other.Id: "no weights of united experts of way 4"} {
			h.await(why, func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				f := find(h.said[0], id)
				return f.GetPhase() == isRefused && !f.Joined && strings.Contains(f.Reason, "function "+id) && strings.Contains(f.Reason, why)
			})
		}
		h.await("it serves", h.serves)
		if n := h.figure("functions_refused_total"); n != 2 {
			t.Errorf("%v functions are counted as refused", n)
		}
		if _, _, err := h.Named(0, united.Id); !errors.Is(err, ErrDeclined) {
			t.Errorf("rows by name of it: %v", err)
		}
	})
}

// standIns has the united experts of one bundle of way 2, which the device numbers behind the model's:
// here it gives the numbers of others, which the fake device has.
type standIns struct{}

func (standIns) Has(way int, bundle uint64) bool      { return way == 2 && bundle == 7 }
func (standIns) Number(_, way, group int) (int, bool) { return 3 - group, way == 2 && group < 2 }

// A host that has a bundle holds the united experts that a plan wants there, by the numbers that its
// device knows them by, and refuses those of another bundle.
func TestUnited(t *testing.T) {
	play(t, 0, Settings{United: standIns{}}, func(h *host) {
		one, other := plan.UnitedFunction(0, plan.Bundle{Way: 2, ID: 7}, []uint32{0}, h.common.Host), plan.UnitedFunction(0, plan.Bundle{Way: 2, ID: 8}, []uint32{0}, h.common.Host)
		h.planFunctions(plan.Function(0, []uint32{0, 1, 2, 3}, "there"), one, other)
		for id, want := range map[string]pb.FunctionPhase{one.Id: isWarm, other.Id: isRefused} {
			h.await("its united experts", func() bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return find(h.said[0], id).GetPhase() == want
			})
		}
		if got := h.fake.Phases(); !slices.Equal(got, []string{"cold", "cold", "cold", "warm"}) {
			t.Errorf("experts %v", got)
		}
		if h.Serves(0, 0) {
			t.Error("a united expert counts as the model's")
		}
		if loads := h.Loads()[0]; len(loads) != 2 || loads[0].Way != 2 || loads[0].Kind != plan.United {
			t.Errorf("it tells of %v", loads)
		}
	})
}

// What fits only without the functions that the plan does not want takes their
// place, though a gate uses them still: else neither would ever go on.
func TestMakeRoom(t *testing.T) {
	play(t, 3, Settings{}, func(h *host) {
		acknowledge := h.gate()
		acknowledge(h.plan([]uint32{0, 1}, []uint32{2}))
		h.awaitWarm(0, 1)
		h.awaitWarm(2)
		h.plan([]uint32{0, 3}, []uint32{2})
		h.awaitWarm(0, 3)
		if want := []string{"warm", "cold", "warm", "warm"}; !slices.Equal(h.fake.Phases(), want) {
			t.Errorf("experts %v", h.fake.Phases())
		}
	})
}

// Other hosts have what this one declines.
func TestDeclines(t *testing.T) {
	play(t, 2, Settings{}, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		declined := func(why string, experts ...uint32) {
			t.Helper()
			if _, _, err := h.Named(0, rig.ID(experts...)); !errors.Is(err, ErrDeclined) || !strings.Contains(fmt.Sprint(err), why) {
				t.Errorf("%v, want %q", err, why)
			}
		}
		declined("it takes 300 bytes, and there is room for 100", 1, 2, 3)
		declined("has no function", 1)
		h.RestNoMore()
		declined("it is leaving", 1, 2, 3)
		if f, isWarm, err := h.Named(0, rig.ID(0)); err != nil || !isWarm || f.ID() != rig.ID(0) {
			t.Errorf("%v, warm %v: %v", f, isWarm, err)
		}
	})
}
