package compute

import (
	"errors"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// Rows of united experts are not refused for good: other hosts may have their weights.
func TestUnitedDispatch(t *testing.T) {
	c := newComputer(t, tensor.F32)
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
		d := rig.Dispatch(tensor.F32, c.shape.Hidden, tc.group)
		d.Kind, d.Way = tc.kind, tc.way
		_, err := c.Compute(d, &pb.FunctionTime{})
		if unable := (*UnitError)(nil); errors.As(err, &unable) != tc.unable || !tc.unable && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
