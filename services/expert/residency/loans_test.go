package residency

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

var offloads = Settings{Offload: true}

// A host serves whatever is planned on it within its budget, down to one expert's, also
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
		{"half of a pair", 1, [][]uint32{{0, 1}, {2}, {3}}},
		{"a part of all", 3, [][]uint32{{0, 1, 2, 3}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, tc.room, offloads, func(h *host) {
				h.within(tc.room)
				h.plan(tc.functions...)
				for _, f := range tc.functions {
					h.awaitWarm(f...) // as gates see it
				}
				for step := range 5 {
					var all []<-chan error
					for _, f := range tc.functions {
						all = append(all, h.rows(uint64(step+1), 0, f...))
					}
					for _, computed := range all {
						h.computes(computed)
					}
				}
				for _, f := range tc.functions {
					if s := h.shown(f...); s.Phase == isRefused {
						t.Errorf("function %v is refused: %s", f, s.Reason)
					}
				}
			})
		})
	}
}

// A dispatch needs its own experts alone, and those that it has stay until it is computed.
func TestLends(t *testing.T) {
	play(t, 2, offloads, func(h *host) {
		h.plan([]uint32{0, 1, 2, 3})
		h.awaitWarm(0, 1, 2, 3)
		f := h.table.functions[rig.ID(0, 1, 2, 3)]
		for e := range 4 { // a load that took no time might end before its dispatch looks
			h.fake.Faults.Take(forward.ExpertID{Expert: e}, time.Millisecond)
		}
		ask := func(experts ...uint32) Roused {
			a, err := h.Rouse(h.t.Context(), f, &pb.Dispatch{Expert: experts}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		first := ask(3)
		if second := ask(2, 3); len(second.lent) != 2 || h.fake.Loads(3) != 1 || !slices.Equal(first.Missing, []uint32{3}) || !slices.Equal(second.Missing, []uint32{2}) {
			t.Errorf("%+v after %d loads", second, h.fake.Loads(3))
		} else {
			h.Done(f, second)
		}
		h.Done(f, ask(0))
		if h.fake.Phase(3) != device.Warm || h.fake.Phase(2) != device.Cold {
			t.Errorf("experts are %v", h.fake.Phases())
		}
		h.Done(f, first)
	})
}

// A dispatch without room waits behind those that came before it.
func TestLine(t *testing.T) {
	play(t, 1, offloads, func(h *host) {
		h.plan([]uint32{0}, []uint32{1}, []uint32{2})
		h.computes(h.rows(1, 0, 1))
		let := h.fake.Hold(h.t, 0)
		first := h.rows(2, 0, 0)
		h.awaitPhase(0, device.Loading)
		second := h.rows(2, 0, 2)
		h.logged()
		third := h.rows(2, 0, 1)
		h.logged()
		let()
		for _, computed := range []<-chan error{first, second, third} {
			h.computes(computed)
		}
		if began := h.fake.Faults.Began(); began[len(began)-1].Expert != 1 {
			t.Errorf("loads began as %v", began)
		}
	})
}

// What nobody needs yet gives its room to rows.
func TestYields(t *testing.T) {
	var ticket *device.Ticket
	with, asked := offloads, int64(0)
	with.Yield = func(bytes int64) bool {
		asked = bytes
		if ticket == nil {
			return false
		}
		ticket.Release()
		ticket = nil
		return true
	}
	play(t, 1, with, func(h *host) {
		h.plan([]uint32{0}, []uint32{1})
		h.awaitWarm(1)
		h.await("the first load", func() bool { return h.fake.Phase(0) == device.Warm })
		ticket = h.fake.Load(h.t.Context(), forward.ExpertID{Expert: 0}, device.Hinted)
		h.computes(h.rows(1, 0, 1))
		if asked != 100 || h.fake.Phase(0) != device.Cold {
			t.Errorf("%d bytes were asked for, experts are %v", asked, h.fake.Phases())
		}
	})
}

// Weights that cannot be read are an error of the rows for them, and of no others.
func TestUnreadable(t *testing.T) {
	play(t, 2, offloads, func(h *host) {
		broken := errors.New("a hole in the disk")
		h.fake.Faults.Fail(forward.ExpertID{Expert: 1}, broken)
		h.plan([]uint32{0}, []uint32{1})
		h.awaitWarm(1)
		err := <-h.rows(1, 0, 1)
		if failed := (*device.FailedError)(nil); !errors.As(err, &failed) || !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		h.computes(h.rows(1, 0, 0))
		h.fake.Faults.Fail(forward.ExpertID{Expert: 1}, nil)
		h.computes(h.rows(2, 0, 1))
	})
}

// What a plan gives more replicas than other functions stays in memory, in half of it at most,
// for as long as the plan says so.
func TestPins(t *testing.T) {
	play(t, 2, offloads, func(h *host) {
		h.within(2)
		hot := h.wanted(warm, 0)
		hot.Placements = append(hot.Placements, &pb.Placement{Host: "there", Want: warm})
		hotter := h.wanted(warm, 1)
		hotter.Placements = append(hotter.Placements, &pb.Placement{Host: "there", Want: warm})
		rest := []*pb.Function{h.wanted(warm, 2), h.wanted(warm, 3)}
		h.planFunctions(hot, hotter, rest[0], rest[1])
		h.awaitPhase(0, device.Warm)
		ask := func(step uint64) {
			for e := range uint32(4) {
				h.computes(h.rows(step, 0, e))
			}
		}
		ask(1)
		ask(2)
		if n := h.fake.Loads(0); n != 1 {
			t.Errorf("%d loads of what is held", n)
		}
		if n := h.fake.Loads(1); n < 2 {
			t.Errorf("%d loads of what there is no room to hold", n)
		}
		h.plan([]uint32{0}, []uint32{1}, []uint32{2}, []uint32{3})
		h.logged()
		ask(3)
		ask(4)
		if n := h.fake.Loads(0); n < 2 {
			t.Errorf("%d loads of what is held no more", n)
		}
	})
}

// Of the experts of a dispatch none that is there goes for one that is not.
func TestHeldFirst(t *testing.T) {
	play(t, 2, offloads, func(h *host) {
		h.plan([]uint32{0, 1, 2, 3})
		h.awaitWarm(0, 1, 2, 3)
		f := h.table.functions[rig.ID(0, 1, 2, 3)]
		for _, experts := range [][]uint32{{2}, {3}, {0, 2}} {
			a, err := h.Rouse(h.t.Context(), f, &pb.Dispatch{Expert: experts}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			h.Done(f, a)
		}
		if n := h.fake.Loads(2); n != 1 || h.fake.Phase(3) != device.Cold {
			t.Errorf("%d loads of one that was there; experts are %v", n, h.fake.Phases())
		}
	})
}
