package compute

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// BenchmarkDispatch is a dispatch of a small model's rows, computed and encoded: what its
// host adds to the experts' own time shows.
func BenchmarkDispatch(b *testing.B) {
	c := newComputer(b, tensor.BF16)
	experts := make([]uint32, 64)
	for i := range experts {
		experts[i] = uint32(i % 3)
	}
	d := rig.Dispatch(tensor.BF16, c.shape.Hidden, experts...)
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Compute(d, &pb.FunctionTime{})
		if err == nil {
			_, err = proto.Marshal(p)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
