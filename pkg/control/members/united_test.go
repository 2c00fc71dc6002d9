package members

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A brownout may come where attention can ask for one, or hosts have united experts.
func TestMayDegrade(t *testing.T) {
	attention := &pb.Member{Id: "attention-1", Service: "attention", Stats: map[string]float64{KVPages: 9}}
	browns := &pb.Member{Id: "attention-2", Service: "attention", Stats: map[string]float64{Browns: 1}}
	host := &pb.Member{Id: "expert-1", Service: "expert"}
	united := &pb.Member{Id: "expert-2", Service: "expert", United: []*pb.UnitedExperts{{Way: 8}}}
	for _, tc := range []struct {
		name string
		all  []*pb.Member
		want bool
	}{
		{"nobody", nil, false},
		{"none that can", []*pb.Member{attention, host}, false},
		{"attention that leaves experts out", []*pb.Member{attention, browns, host}, true},
		{"a host with united experts", []*pb.Member{attention, united}, true},
	} {
		if got := MayDegrade(tc.all); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
