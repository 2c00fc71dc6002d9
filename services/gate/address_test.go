package gate

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// fakeRoster is a roster that the test decides on.
type fakeRoster struct {
	steady bool
	doubts int
	heard  []*pb.Member
}

func (f *fakeRoster) Doubt()              { f.doubts++; f.steady = false }
func (f *fakeRoster) Steady() bool        { return f.steady }
func (f *fakeRoster) Heard() []*pb.Member { return f.heard }

func live(ids ...string) (all []*pb.Member) {
	for _, id := range ids {
		all = append(all, &pb.Member{Id: id})
	}
	return all
}

// at is a function that is warm on some hosts.
func at(hosts ...string) *plan.Target {
	return &plan.Target{Function: &pb.Function{Id: "f"}, Hosts: hosts}
}

// A function's rows go to its group while all hosts are heard, else to its
// hosts that are; lost ones to one of them, and to another one with each attempt.
func TestAddresses(t *testing.T) {
	const group = "yard.expert.demo.2.f"
	host := func(id string) string { return "yard.host.demo." + id }
	leaving := &pb.Member{Id: "b", Draining: true}
	for _, tc := range []struct {
		name    string
		steady  bool
		heard   []*pb.Member
		hosts   []string
		attempt uint32
		want    []string
	}{
		{"all are heard", true, live("a", "b"), []string{"a", "b"}, 0, []string{group, group}},
		{"a lone host", true, live("a", "b"), []string{"a"}, 0, []string{group}},
		{"nobody is warm", true, live("a", "b"), nil, 0, []string{group}},
		{"one is quiet", false, live("b", "a"), []string{"a", "b", "c"}, 0, []string{host("a"), host("b")}},
		{"the only one is quiet", false, live("b"), []string{"a"}, 0, []string{group}},
		{"all are quiet", false, nil, []string{"a", "b"}, 0, []string{group, group}},
		{"another one is quiet", false, live("a", "b"), []string{"a"}, 0, []string{host("a")}},
		{"lost", true, live("b", "a"), []string{"a", "b"}, 1, []string{host("b")}},
		{"lost again", true, live("b", "a"), []string{"a", "b"}, 2, []string{host("a")}},
		{"lost thrice", true, live("a", "b"), []string{"a", "b"}, 3, []string{host("b")}},
		{"lost and one is quiet", true, live("a"), []string{"a", "b"}, 1, []string{host("a")}},
		{"one is leaving", false, append(live("a"), leaving), []string{"a", "b"}, 0, []string{host("a")}},
	} {
		a := addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: tc.steady, heard: tc.heard}}
		a.choose(&pb.Key{Layer: 2, Attempt: tc.attempt})
		var got []string
		for part := range a.parts(at(tc.hosts...)) {
			out := outgoing{&pb.Dispatch{}, "f", part}
			to := a.address(out)
			if named := out.Function == "f"; named != (to != group) {
				t.Errorf("%s: function %q in a message to %s", tc.name, out.Function, to)
			}
			got = append(got, to)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// What held for one message does not for the next.
func TestAddressesForget(t *testing.T) {
	hosts := &fakeRoster{heard: live("a")}
	a := addresses{hosts: hosts}
	a.choose(&pb.Key{})
	a.parts(at("a", "b"))
	hosts.steady = true
	a.choose(&pb.Key{Layer: 1})
	a.parts(at("a", "b"))
	if got := a.address(outgoing{&pb.Dispatch{}, "f", 0}); got != a.subjects.Expert(1, "f") {
		t.Errorf("sent to %s", got)
	}
}
