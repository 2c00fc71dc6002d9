package admission

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/schemas"
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
		err := (&Admission{members: tc.here, demand: newDemand(), quotas: newQuotas(nil, 0)}).checkBrownout(Request{ID: "r"}, time.Now())
		if (err != nil) != tc.refused || err != nil && !strings.Contains(err.Error(), "--max-loss") {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// Who has more than its share under way is refused before others, first what it spares from brownouts: one
// tenant's wish refuses nobody else.
func TestRefusedFirst(t *testing.T) {
	const allow, never = false, true
	type under struct {
		tenant string
		n      int
		own    bool
		waits  bool
	}
	for name, tc := range map[string]struct {
		under []under
		want  map[string][2]bool // by tenant: whether it is admitted with allow, never
	}{
		"one who says never":                    {[]under{{"many", 50, never, false}}, map[string][2]bool{"many": {false, false}, "one": {true, true}}},
		"those who wait count, too":             {[]under{{"many", 50, never, true}}, map[string][2]bool{"many": {false, false}, "one": {true, true}}},
		"one who allows it, and is too much":    {[]under{{"many", 50, allow, false}, {"one", 2, never, false}}, map[string][2]bool{"many": {false, false}, "one": {true, true}}},
		"as much of both":                       {[]under{{"a", 5, allow, false}, {"b", 5, never, false}}, map[string][2]bool{"a": {false, false}, "b": {false, false}, "c": {true, true}}},
		"one alone":                             {[]under{{"many", 50, allow, false}}, map[string][2]bool{"many": {false, false}}},
		"by weight: more is its due":            {[]under{{"heavy", 30, never, false}, {"b", 10, allow, false}}, map[string][2]bool{"heavy": {true, true}, "b": {false, false}}},
		"two with too much, one of them spared": {[]under{{"spared", 20, never, false}, {"b", 20, allow, false}, {"c", 1, never, false}}, map[string][2]bool{"spared": {false, false}, "b": {true, false}, "c": {true, true}}},
		"nobody has anything":                   {nil, map[string][2]bool{"one": {false, false}}},
	} {
		a := &Admission{members: roll{{Service: "attention", Stats: map[string]float64{members.BrownoutFloored: 1}}}, demand: newDemand(), quotas: newQuotas(map[string]Quota{"heavy": {Weight: 8}}, 0)}
		for _, u := range tc.under {
			for i := range u.n {
				accept := &pb.Accept{Tenant: u.tenant, Weight: a.quotas.of(u.tenant).Weight, PromptTokens: 10, MaxTokens: 90, Sequence: &pb.Sequence{OwnExperts: u.own}}
				if id := fmt.Sprint(u.tenant, i); u.waits {
					a.Waits(id, accept)
				} else {
					a.Runs(id, accept)
				}
			}
		}
		for tenant, want := range tc.want {
			r := Request{ID: "new", Flow: schemas.Flow{Tenant: tenant}}
			a.Enter(r) // as intake does
			first := a.checkBrownout(r, time.Now()) == nil
			r.OwnExperts = true
			if got := [2]bool{first, a.checkBrownout(r, time.Now()) == nil}; got != want {
				t.Errorf("%s: %s is admitted %v, want %v", name, tenant, got, want)
			}
			a.Leave(r, 0)
		}
		for _, u := range tc.under { // what has ended counts no more
			for i := range u.n {
				a.Gone(fmt.Sprint(u.tenant, i))
			}
		}
		if len(a.demand.running)+len(a.demand.waiting) > 0 {
			t.Errorf("%s: %d are under way", name, len(a.demand.running)+len(a.demand.waiting))
		}
	}
}
