package gate

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
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

// outgoings are messages of function f, one for each part.
func outgoings(w ways) (all []outgoing) {
	for part := range w.parts {
		out := outgoing{Dispatch: &pb.Dispatch{}, function: "f"}
		if part < len(w.hosts) {
			out.host = w.hosts[part]
		}
		all = append(all, out)
	}
	return all
}

func slow(states map[string]quarantine.State) func() map[string]quarantine.State {
	return func() map[string]quarantine.State { return states }
}

// A function's rows go to its group while all hosts are heard, else to its
// hosts that are and not slow; lost ones to one of them, and to another one with each
// attempt, at last to one that is to load it.
func TestAddresses(t *testing.T) {
	const group = "yard.expert.demo.2.f"
	host := func(id string) string { return "yard.host.demo." + id }
	b := func(s quarantine.State) map[string]quarantine.State { return map[string]quarantine.State{"b": s} }
	leaving := &pb.Member{Id: "b", Draining: true}
	for _, tc := range []struct {
		name    string
		steady  bool
		heard   []*pb.Member
		hosts   []string
		attempt uint32
		want    []string
		slow    map[string]quarantine.State
	}{
		{"all are heard", true, live("a", "b"), []string{"a", "b"}, 0, []string{group, group}, nil},
		{"a lone host", true, live("a", "b"), []string{"a"}, 0, []string{group}, nil},
		{"nobody is warm", true, live("a", "b"), nil, 0, []string{group}, nil},
		{"one is quiet", false, live("b", "a"), []string{"a", "b", "c"}, 0, []string{host("a"), host("b")}, nil},
		{"the only one is quiet", false, live("b"), []string{"a"}, 0, []string{host("b")}, nil},
		{"all are quiet", false, nil, []string{"a", "b"}, 0, []string{group, group}, nil},
		{"another one is quiet", false, live("a", "b"), []string{"a"}, 0, []string{host("a")}, nil},
		{"lost", true, live("b", "a"), []string{"a", "b"}, 1, []string{host("b")}, nil},
		{"lost again", true, live("b", "a"), []string{"a", "b"}, 2, []string{host("a")}, nil},
		{"lost thrice", true, live("a", "b"), []string{"a", "b"}, 3, []string{host("b")}, nil},
		{"lost and one is quiet", true, live("a"), []string{"a", "b"}, 1, []string{host("a")}, nil},
		{"one is leaving", false, append(live("a"), leaving), []string{"a", "b"}, 0, []string{host("a")}, nil},
		{"the only one is leaving", false, append(live("a"), leaving), []string{"b"}, 0, []string{group}, nil},
		{"a lone host loses them", true, live("a", "b"), []string{"a"}, 1, []string{host("a")}, nil},
		{"a lone host loses them again", true, live("a", "b"), []string{"a"}, 2, []string{host("b")}, nil},
		{"and the other one loads", true, live("a", "b"), []string{"a"}, 3, []string{host("b")}, nil},
		{"and a third one", true, live("c", "a", "b"), []string{"a"}, 4, []string{host("c")}, nil},
		{"and from the beginning", true, live("c", "a", "b"), []string{"a"}, 5, []string{host("a")}, nil},
		{"both lose them", true, live("c", "a", "b"), []string{"a", "b"}, 3, []string{host("c")}, nil},
		{"one is slow", true, live("a", "b"), []string{"a", "b"}, 0, []string{host("a")}, b(quarantine.Avoided)},
		{"one is slow and does not have it", true, live("a", "b"), []string{"a"}, 0, []string{group}, b(quarantine.Avoided)},
		{"the only one is slow", true, live("a", "b"), []string{"b"}, 0, []string{group}, b(quarantine.Avoided)},
		{"one is slow, the other one quiet", false, live("b"), []string{"a", "b"}, 0, []string{host("b")}, b(quarantine.Avoided)},
		{"one is slow, and rows were lost", true, live("a", "b"), []string{"a", "b"}, 1, []string{host("a")}, b(quarantine.Avoided)},
		{"a slow one comes last", true, live("a", "b", "c"), []string{"a", "b"}, 5, []string{host("b")}, b(quarantine.Avoided)},
		{"and loads for nobody", true, live("a", "b"), []string{"a"}, 2, []string{host("a")}, b(quarantine.Avoided)},
		{"one is tried", true, live("a", "b"), []string{"a", "b"}, 0, []string{host("a")}, b(quarantine.Tried)},
	} {
		a := addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: tc.steady, heard: tc.heard}, slow: slow(tc.slow)}
		a.look(&pb.Key{Layer: 2, Attempt: tc.attempt})
		var got []string
		for _, out := range outgoings(a.ways(at(tc.hosts...))) {
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
	a := addresses{hosts: hosts, slow: slow(nil)}
	a.look(&pb.Key{})
	a.ways(at("a", "b"))
	hosts.steady = true
	a.look(&pb.Key{Layer: 1})
	if got := a.address(outgoings(a.ways(at("a", "b")))[0]); got != a.subjects.Expert(1, "f") {
		t.Errorf("sent to %s", got)
	}
}

// A host that is tried gets rows once in a while, and all that time by name.
func TestTried(t *testing.T) {
	a := addresses{
		subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: true, heard: live("a", "b")},
		slow: slow(map[string]quarantine.State{"b": quarantine.Tried}),
	}
	times := 0
	for step := range uint64(8 * triedOnce) {
		a.look(&pb.Key{Layer: 2, Step: step})
		for _, out := range outgoings(a.ways(at("a", "b"))) {
			if a.address(out) == a.subjects.Host("b") {
				times++
			}
		}
	}
	if times != 8 {
		t.Errorf("%d of %d messages", times, 8*triedOnce)
	}
}
