package compute

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// What places took is together what the device says, as sums and as slots.
func TestShares(t *testing.T) {
	c, sum := newComputer(t, tensor.BF16), 0.0
	for _, tc := range []struct {
		name    string
		sums    bool
		experts []uint32
	}{
		{"slots", false, []uint32{0, 1, 2, 1, 1, 0}},
		{"sums", true, []uint32{0, 1, 2, 1, 1, 0}},
		{"a sum and a slot", true, []uint32{0, 1, 2}},
	} {
		d := rig.Dispatch(tensor.BF16, c.shape.Hidden, tc.experts...)
		d.Key.Rows, d.Awaits, d.Key.RowSums = 4, []byte{0b00111111}, tc.sums
		p, err := c.Compute(d, &pb.FunctionTime{})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if len(p.ByteSeconds) != len(p.Place) {
			t.Fatalf("%s: %d places, %d numbers", tc.name, len(p.Place), len(p.ByteSeconds))
		}
		for _, took := range p.ByteSeconds {
			if !(took > 0) {
				t.Errorf("%s: a place took %v", tc.name, took)
			}
			sum += float64(took)
		}
	}
	if taken := c.device.Metered().Taken * 1e9; math.Abs(sum-taken) > 1e-5*taken {
		t.Errorf("places took %v, the device says %v", sum, taken)
	}
}
