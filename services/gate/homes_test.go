package gate

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Rows go home where hosts offload, and as before where nothing has a home, or that is in doubt.
func TestHomes(t *testing.T) {
	even := []string{"0:group=1", "0:group=1", "1:group=1", "1:group=1"}
	for _, tc := range []struct {
		name     string
		offloads string // the host that does
		hosts    []string
		change   func(*addresses, *homing)
		want     []string
	}{
		{"all offload", "b", []string{"a b", "a b"}, nil, []string{"0:a=2", "1:b=2"}},
		{"hosts hold all", "", []string{"a b", "a b"}, nil, even},
		{"others offload", "c", []string{"a b", "a b"}, nil, even},
		{"one is held by both", "b", []string{"a b", "a"}, nil, []string{"0:group=1", "0:group=1", "1:group=2"}},
		{"rows that were lost", "b", []string{"a b", "a b"}, func(a *addresses, _ *homing) { a.key.Attempt = 1 }, []string{"0:b=2", "1:b=2"}},
		{"one may hang", "b", []string{"a b", "a b"}, func(a *addresses, _ *homing) { a.hosts = &fakeRoster{heard: live("a")} }, []string{"0:a=2", "1:a=2"}},
		{"one is slow", "b", []string{"a b", "a b"}, func(a *addresses, _ *homing) {
			a.slow = slow(map[string]quarantine.State{"b": quarantine.Avoided})
		}, []string{"0:a=2", "1:a=2"}},
		{"none offloads any more", "b", []string{"a b", "a b"}, func(_ *addresses, h *homing) { h.members(nil) }, even},
	} {
		to := warmOn(t, nil, [][]uint32{{0}, {1}}, tc.hosts...)
		a := &addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: true, heard: live("a", "b")}, slow: slow(nil), key: &pb.Key{}}
		h := newHoming()
		h.members([]*pb.Member{{Id: "g", Service: "gate"}, {Id: tc.offloads, Service: "expert", Stats: map[string]float64{members.Offloads: float64(len(tc.offloads))}}})
		if tc.change != nil {
			tc.change(a, h)
		}
		a.look(a.key)
		routes := each(2, 2)
		for range 2 { // what is known of routes is used again
			got := sent(to, newSplitter(width).split(hidden(len(routes.Expert)), routes, to, h.ways(a, to, newDivision().ways(a, to, routes))))
			if !slices.Equal(got, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
			}
		}
	}
}

// A home that is not warm yet, and routes without a plan, leave rows to others.
func TestNoHomes(t *testing.T) {
	to := warmOn(t, nil, [][]uint32{{0}}, "a b")
	to.Targets[0].Hosts = []string{"b"}
	hosts := map[string]bool{"a": true, "b": true}
	if got := newHoming().of(0, to, &hosts).to[0]; got.parts != 0 {
		t.Errorf("rows go to %v", got.hosts)
	}
	bare := &plan.Routes{Targets: to.Targets}
	if got := newHoming().of(0, bare, &hosts).to[0]; got.parts != 0 {
		t.Errorf("without a plan rows go to %v", got.hosts)
	}
}
