package probe

import (
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Canaries wake nobody who is asleep on purpose.
func TestAsleep(t *testing.T) {
	host := func(stats map[string]float64) *pb.Member {
		return &pb.Member{Service: "expert", Ready: true, Stats: stats}
	}
	for _, tc := range []struct {
		name string
		all  []*pb.Member
		want bool
	}{
		{"nobody", nil, false}, {"one that does not say", []*pb.Member{host(nil)}, false},
		{"all cold", []*pb.Member{host(map[string]float64{members.WantedWarm: 0}), host(map[string]float64{members.WantedWarm: 0})}, true},
		{"one warm", []*pb.Member{host(map[string]float64{members.WantedWarm: 0}), host(map[string]float64{members.WantedWarm: 1})}, false},
	} {
		if got := asleep(tc.all); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}
