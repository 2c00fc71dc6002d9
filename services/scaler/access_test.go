package scaler

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestAccess(t *testing.T) {
	host := func(read float64) *pb.Member {
		return &pb.Member{Service: "expert", Access: &pb.AccessTime{ReadSeconds: read}}
	}
	for _, tc := range []struct {
		name string
		all  []*pb.Member
		want float64
		said bool
	}{
		{"none says", []*pb.Member{{Service: "expert"}}, 0, false},
		{"most say", []*pb.Member{host(3), host(2), host(3)}, 3, true},
		{"as many say either", []*pb.Member{host(3), host(2)}, 2, true},
		{"what cannot be", []*pb.Member{host(-1), host(math.NaN()), host(math.Inf(1)), host(2)}, 2, true},
		{"other services", []*pb.Member{{Service: "gate", Access: &pb.AccessTime{ReadSeconds: 1}}}, 0, false},
	} {
		if got, said := access(tc.all); said != tc.said || got != (divide.Takes{Read: tc.want}) {
			t.Errorf("%s: %+v, %v", tc.name, got, said)
		}
	}
}
