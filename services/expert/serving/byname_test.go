package serving

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// byName sends rows of a function to this host.
func (h *host) byName(step uint64, function ...uint32) {
	h.t.Helper()
	d := rig.Dispatch(h.d.Wire, h.d.Shape.Hidden, function[0])
	d.Key.Model, d.Key.Step, d.Key.Attempt, d.Key.Microbatch = h.d.Identity.Model, step, 2, uint32(step)
	d.Function = rig.ID(function...)
	if err := h.d.Hop.Send(h.t.Context(), h.d.Subjects.Host("here"), d); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) awaitDeclined(n int) *pb.Block {
	h.t.Helper()
	last := h.blocks.Take(h.t, n)[n-1]
	if last.Error.GetCode() != wire.Elsewhere || last.Error.Message == "" {
		h.t.Fatalf("told %v", last)
	}
	return last
}

// Rows that come by name for a function that is planned elsewhere are computed when the host
// has loaded it, however many have come for it.
func TestByName(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0)
	let := h.fake.Hold(t, 3)
	h.byName(1, 2, 3)
	h.byName(2, 2, 3)
	h.byName(3, 0, 1) // is warm, and does not wait for the others
	if got := h.partials.Take(t, 1); len(got) != 1 || got[0].Key.Step != 3 {
		t.Errorf("%v", got)
	}
	let()
	for i, p := range h.partials.Take(t, 3)[1:] {
		if p.Key.Attempt != 2 || p.Key.Step > 2 {
			t.Errorf("partial %d is %v", i, p)
		}
	}
	if told := h.blocks.All(); len(told) > 0 || h.fake.Loads(3) != 1 {
		t.Errorf("told %v; %d loads", told, h.fake.Loads(3))
	}
}

// What a host cannot have is declined at once, and disturbs nothing.
func TestDecline(t *testing.T) {
	t.Parallel()
	h := newHost(t, 3)
	for n, function := range [][]uint32{{2, 3}, {1}} { // without room, and unknown
		h.byName(uint64(n), function...)
		if k := h.awaitDeclined(n + 1).Key; k.Step != uint64(n) || k.Attempt != 2 {
			t.Errorf("%v", k)
		}
	}
	h.byName(3, 0, 1)
	if got := h.partials.Take(t, 1)[0].Key.Step; got != 3 {
		t.Errorf("step %d", got)
	}
	h.functions.RestNoMore()
	h.byName(4, 2, 3)
	h.awaitDeclined(3)
	if n := len(h.functions.Loads()[0]); n != 1 || h.figure("dispatches_not_warm_total") != 3 {
		t.Errorf("%d functions are there; the members see %v declined", n, h.figure("dispatches_not_warm_total"))
	}
}

// A load that fails ends the wait of those who wait for it.
func TestBorrowFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, 0)
	h.fake.Faults.Fail(forward.ExpertID{Expert: 3}, errors.New("a broken disk"))
	for n := range 2 {
		h.byName(uint64(n+1), 2, 3)
		h.awaitDeclined(n + 1)
	}
}
