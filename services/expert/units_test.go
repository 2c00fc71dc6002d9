package expert

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host refuses what it can never serve, says why, and serves the rest of the plan.
func TestUnable(t *testing.T) {
	h := startHost(t, 0)
	all := h.wanted(warm, 0, 1, 2, 3)
	united, indirect := plan.UnitedFunction(0, 2, []uint32{0, 1}, h.id), h.wanted(cold, 1)
	indirect.Transfer = plan.Indirect
	h.planFunctions(all, united, indirect)
	h.awaitWarm(0, 1, 2, 3)
	for id, why := range map[string]string{united.Id: "no weights of united experts of way 2", indirect.Id: "transfer mode 3, direct"} {
		h.await(why, func() bool {
			for _, f := range h.states.Host(0, h.id).GetFunctions() {
				if f.Id == id {
					return f.Phase == isRefused && !f.Joined && strings.Contains(f.Reason, why)
				}
			}
			return false
		})
	}
	h.await("ready", h.presence.Ready)
	if _, _, err := h.named(0, united.Id); !errors.Is(err, errDeclined) {
		t.Errorf("rows by name of it: %v", err)
	}
}

// Rows of united experts are nobody's fault here: others may have their weights.
func TestUnitedDispatch(t *testing.T) {
	h := startHost(t, 0)
	c := &computer{device: h.fake, shape: h.d.Shape, wire: h.d.Wire}
	for _, tc := range []struct {
		name       string
		kind       pb.FunctionKind
		way, group uint32
		unable     bool
	}{
		{"united", plan.United, 2, 1, true},
		{"no such group", plan.United, 2, 2, false},
		{"no way", plan.United, 0, 0, false},
		{"a routed way", plan.Routed, 2, 0, false},
		{"unknown", 3, 0, 0, false},
	} {
		d := dispatch(h.d.Wire, h.d.Shape.Hidden, tc.group)
		d.Key.Model, d.Kind, d.Way = h.d.Identity.Model, tc.kind, tc.way
		_, err := c.compute(d, &pb.FunctionTime{})
		if unable := (*UnitError)(nil); errors.As(err, &unable) != tc.unable || !tc.unable && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
