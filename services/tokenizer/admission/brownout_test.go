package admission

import (
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// roll is members that a test names.
type roll []*pb.Member

func (r roll) Snapshot() []*pb.Member { return r }

// New requests are refused where no attention replica can do with its steps, however far the
// brownout goes.
func TestRefusesAtTheFloor(t *testing.T) {
	replica := func(floored float64) *pb.Member {
		return &pb.Member{Service: "attention", Stats: map[string]float64{members.BrownoutFloored: floored}}
	}
	for _, tc := range []struct {
		name    string
		here    roll
		refused bool
	}{
		{"nobody", nil, false}, {"one above its floor", roll{replica(0)}, false}, {"one at it", roll{replica(1)}, true},
		{"one of two", roll{replica(1), replica(0)}, false}, {"both", roll{replica(1), replica(1), {Service: "gate"}}, true},
	} {
		err := (&Admission{members: tc.here}).checkBrownout()
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "--max-loss") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
