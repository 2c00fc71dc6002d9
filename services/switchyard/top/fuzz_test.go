package top

import (
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Whatever plans and hosts say: what is shown of it is bounded, and no expert has more
// replicas than there are states of functions with it.
func FuzzCount(f *testing.F) {
	encode := func(m proto.Message) []byte {
		body, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return body
	}
	state := &pb.FunctionState{Id: "0123456789abcdef", Phase: pb.FunctionPhase_FUNCTION_PHASE_WARM}
	f.Add(encode(&pb.LayerPlan{Layer: 3, Functions: []*pb.Function{{Id: state.Id, Experts: []uint32{0, 2}}}}), encode(&pb.HostLayer{Functions: []*pb.FunctionState{state, state}}))
	f.Add(encode(&pb.LayerPlan{Layer: 1 << 31, Functions: []*pb.Function{{Experts: []uint32{1 << 31}}}}), encode(&pb.HostLayer{Functions: []*pb.FunctionState{{Phase: 77}}}))
	f.Fuzz(func(t *testing.T, plan, host []byte) {
		l, h := &pb.LayerPlan{}, &pb.HostLayer{}
		if proto.Unmarshal(plan, l) != nil || proto.Unmarshal(host, h) != nil {
			return
		}
		r := count(l, h.Functions)
		for _, column := range [][]int{r.Warm, r.Kept, r.Cold} {
			if len(column) > maxExperts {
				t.Fatalf("%d experts", len(column))
			}
			for e, n := range column {
				if n < 0 || n > len(h.Functions)*max(1, len(plan)) {
					t.Errorf("expert %d has %d replicas of %d", e, n, len(h.Functions))
				}
			}
		}
	})
}
