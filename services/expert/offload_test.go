package expert

import (
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

var offloads = Config{Offload: residency.LRU{}}

// partials of what comes from now on.
func (h *host) partials() *testdeployment.Received[*pb.Partial] {
	return testdeployment.Listen[*pb.Partial](h.t, h.d, bus.Receiver{
		Stream: h.d.Streams.Partial(), Name: "a", Subject: h.d.Subjects.Partial("a"), MaxInFlight: 200, Private: true,
	})
}

// A host serves whatever is planned on it within its budget, down to one function's, also
// when rows come for all functions at once.
func TestServesMoreThanItHolds(t *testing.T) {
	for _, tc := range []struct {
		name      string
		room      int
		functions [][]uint32
	}{
		{"one of four", 1, [][]uint32{{0}, {1}, {2}, {3}}},
		{"two of four", 2, [][]uint32{{0}, {1}, {2}, {3}}},
		{"a pair of two", 2, [][]uint32{{0, 1}, {2, 3}}},
		{"a pair or one", 3, [][]uint32{{0, 1}, {2}, {3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := startHostWith(t, tc.room, offloads)
			h.within(tc.room)
			partials := h.partials()
			h.plan(tc.functions...)
			for _, f := range tc.functions {
				h.awaitWarm(f...) // as gates see it
			}
			for step := range 5 {
				for _, f := range tc.functions {
					h.rows(uint64(step+1), 0, f...)
				}
				partials.Take(t, (step+1)*len(tc.functions))
			}
			for _, f := range tc.functions {
				if s := h.state(f...); s.Phase == isRefused {
					t.Errorf("function %v is refused: %s", f, s.Reason)
				}
			}
		})
	}
}

// What had rows last stays; what had none for the longest makes room.
func TestOffloadsTheOldest(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 2, offloads)
	partials := h.partials()
	h.plan([]uint32{0}, []uint32{1}, []uint32{2})
	for e := range uint32(3) {
		h.awaitWarm(e)
	}
	for step, e := range []uint32{0, 1, 0, 2} {
		h.rows(uint64(step+1), 0, e)
		partials.Take(t, step+1)
	}
	h.awaitPhase(1, device.Cold)
	if h.phase(0) != device.Warm || h.phase(2) != device.Warm {
		t.Errorf("experts are %v", h.phases())
	}
}

// What can never fit is refused, with both numbers.
func TestOffloadRefuses(t *testing.T) {
	t.Parallel()
	h := startHostWith(t, 1, offloads)
	h.plan([]uint32{0, 1}, []uint32{2})
	h.awaitWarm(2)
	h.awaitState(isRefused, false, 0, 1)
	if s := h.state(0, 1); s.NeedBytes != 200 || s.RoomBytes != 100 {
		t.Errorf("%v", s)
	}
}
