package serving

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// The parts of a dispatch by experts hold its entries once, each with its row, and can be
// computed as they are.
func TestOnlyExperts(t *testing.T) {
	shape := &wire.Shape{Identity: wire.Identity{Model: 7}, Hidden: 3, Experts: 4, TopK: 2, MoE: []bool{true}, MaxRows: func() int { return 100 }}
	rapid.Check(t, func(t *rapid.T) {
		d := rig.Dispatch(tensor.BF16, 3, rapid.SliceOfN(rapid.Uint32Range(0, 3), 1, 12).Draw(t, "experts")...)
		of := rapid.SliceOfN(rapid.Bool(), 4, 4).Draw(t, "parts")
		d.Gate = &pb.GateTime{QueueNs: 1}
		if _, err := shape.CheckDispatch(d); err != nil {
			t.Fatal(err)
		}
		entries := 0
		for _, which := range []bool{false, true} {
			var experts []uint32
			for e, side := range of {
				if side == which && slices.Contains(d.Expert, uint32(e)) {
					experts = append(experts, uint32(e))
				}
			}
			if len(experts) == 0 {
				continue
			}
			part := onlyExperts(shape, d, experts)
			if _, err := shape.CheckDispatch(part); err != nil {
				t.Fatal(err)
			}
			entries += len(part.Place)
			checkPart(t, shape, d, part)
		}
		if entries != len(d.Place) {
			t.Fatalf("%d of %d entries", entries, len(d.Place))
		}
	})
}

func checkPart(t *rapid.T, shape *wire.Shape, d, part *pb.Dispatch) {
	row := func(d *pb.Dispatch, entry int) []byte {
		at := 0
		for i := 1; i <= entry; i++ {
			if shape.Row(d.Place[i]) != shape.Row(d.Place[i-1]) {
				at++
			}
		}
		return d.Tensor.Data[at*6 : (at+1)*6]
	}
	for i, place := range part.Place {
		from := slices.Index(d.Place, place)
		if part.Expert[i] != d.Expert[from] || part.Weight[i] != d.Weight[from] || !slices.Equal(row(part, i), row(d, from)) {
			t.Fatalf("place %d is another one", place)
		}
	}
	if part.Key == d.Key || !proto.Equal(part.Key, d.Key) || part.Gate != d.Gate {
		t.Fatalf("%v", part)
	}
}
