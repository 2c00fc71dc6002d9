package gate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/quarantine"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// rentedOn are routes with a rented function of each set of experts, the first one beside
// attention.
func rentedOn(t interface{ Fatal(...any) }, takes *divide.Takes, functions [][]uint32, hosts ...string) *plan.Routes {
	to := warmOn(t, takes, functions, hosts...)
	for i, target := range to.Targets {
		target.MemoryBytes, target.Beside = 1<<20, i == 0
	}
	return to
}

// experts says which experts' rows go where.
func experts(to *plan.Routes, all []outgoing) (text []string) {
	for _, out := range all {
		f := slices.IndexFunc(to.Targets, func(t plan.Target) bool { return t.Id == out.function })
		own := slices.Compact(slices.Sorted(slices.Values(out.Expert)))
		text = append(text, fmt.Sprintf("%d:%s %v", f, out.host, own))
	}
	slices.Sort(text)
	return text
}

// A rented function's experts go whole to its replicas where rows are of prompts, by what they
// take and not by where the plan has them, and as one invocation where they are not.
func TestRented(t *testing.T) {
	both := [][]uint32{{0}, {1, 2, 3, 4}}
	for _, tc := range []struct {
		name   string
		hosts  []string
		rows   []int
		takes  *divide.Takes
		change func(*addresses, *pb.Hidden)
		want   []string
	}{
		{"the longest first", []string{"a", "b c"}, []int{9, 5, 3, 3, 1}, nil, nil, []string{"0: [0]", "1:b [1 4]", "1:c [2 3]"}},
		{"by what they take", []string{"a", "b c"}, []int{0, 150, 90, 50, 10}, &reads, nil, []string{"1:b [1 4]", "1:c [2 3]"}},
		{"three", []string{"a", "b c d"}, []int{0, 4, 4, 4, 2}, nil, nil, []string{"1:b [1 4]", "1:c [2]", "1:d [3]"}},
		{"fewer experts than replicas", []string{"a", "b c d"}, []int{0, 0, 4, 0, 0}, nil, nil, []string{"1:b [2]"}},
		{"one replica", []string{"a", "b"}, []int{1, 1, 1, 1, 1}, nil, nil, []string{"0: [0]", "1: [1 2 3 4]"}},
		{"answers", []string{"a", "b c"}, []int{1, 1, 1, 1, 1}, nil, func(_ *addresses, h *pb.Hidden) { h.Phases[0].Phase = pb.Phase_PHASE_DECODE }, []string{"0: [0]", "1: [1 2 3 4]"}},
		{"a host that is slow", []string{"a", "b c"}, []int{0, 2, 2, 0, 0}, nil, func(a *addresses, _ *pb.Hidden) {
			a.slow = slow(map[string]quarantine.State{"b": quarantine.Avoided})
		}, []string{"1:c [1 2]"}},
		{"rows that were lost", []string{"a", "b c"}, []int{0, 2, 2, 0, 0}, nil, func(a *addresses, _ *pb.Hidden) { a.key.Attempt = 1 }, []string{"1:c [1 2]"}},
	} {
		to := rentedOn(t, tc.takes, both, tc.hosts...)
		a := &addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: true, heard: live("a", "b", "c", "d")}, slow: slow(nil), key: &pb.Key{}}
		routes := each(tc.rows...)
		h := hidden(len(routes.Expert))
		if tc.change != nil {
			tc.change(a, h)
		}
		a.look(a.key)
		var r renting
		s, d := newSplitter(width), newDivision()
		if got := experts(to, s.split(h, routes, to, r.ways(h, a, to, routes, d.ways(a, to, routes)))); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// A function's message with more rows than an invocation takes is several, whole rows in each; the
// host beside attention has no bound.
func TestRentedPayload(t *testing.T) {
	to := rentedOn(t, nil, [][]uint32{{0}, {1, 2}}, "a", "b")
	h, routes := hidden(5), &forward.Routes{K: 2}
	for range 5 {
		routes.Expert, routes.Weight = append(routes.Expert, 1, 2), append(routes.Weight, 1, 1)
	}
	a := &addresses{hosts: &fakeRoster{steady: true, heard: live("a", "b")}, slow: slow(nil)}
	a.look(h.Key)
	for most, want := range map[int][]int{0: {5}, 2: {2, 2, 1}, 5: {5}} {
		s, r, d := newSplitter(width), renting{most: most}, newDivision()
		var rows []int
		for _, out := range s.split(h, routes, to, r.ways(h, a, to, routes, d.ways(a, to, routes))) {
			rows = append(rows, int(out.Tensor.Rows))
		}
		if !slices.Equal(rows, want) || s.cuts != len(want)-1 {
			t.Errorf("%d rows an invocation: messages of %d, %d more than one", most, rows, s.cuts)
		}
	}
	for i := range routes.Expert {
		routes.Expert[i] = 0
	}
	routes.K = 1
	if h = hidden(10); len(newSplitter(width).split(h, routes, to, (&renting{most: 2}).ways(h, a, to, routes, newDivision().ways(a, to, routes)))) != 1 {
		t.Error("the host beside attention is sent several messages")
	}
}

// Each routed row goes once, an expert's rows of one function to one message.
func TestRentedRows(t *testing.T) {
	var r renting
	d, s := newDivision(), newSplitter(width)
	rapid.Check(t, func(t *rapid.T) {
		r.most = rapid.IntRange(0, 4).Draw(t, "most")
		n := rapid.IntRange(2, 8).Draw(t, "experts")
		functions, hosts := [][]uint32{{0}, nil}, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "hosts")
		for e := 1; e < n; e++ {
			functions[1] = append(functions[1], uint32(e))
		}
		to := rentedOn(t, rapid.SampledFrom([]*divide.Takes{nil, &reads, {}}).Draw(t, "takes"), functions, "z", strings.Join(hosts, " "))
		rows, k := rapid.IntRange(1, 40).Draw(t, "rows"), rapid.IntRange(1, n).Draw(t, "k")
		h, routes := hidden(rows), drawRoutes(t, rows, k, n)
		left := leaveOut(t, routes)
		a := &addresses{hosts: &fakeRoster{steady: true, heard: live("a", "b", "c", "z")}, slow: slow(nil)}
		a.look(h.Key)
		seen, at := map[uint32]bool{}, map[uint32]int{}
		for i, out := range s.split(h, routes, to, r.ways(h, a, to, routes, d.ways(a, to, routes))) {
			checkDispatch(t, out, h, routes, to)
			for j, place := range out.Place {
				if seen[place] {
					t.Fatalf("place %d is in two messages", place)
				}
				seen[place] = true
				if other, had := at[out.Expert[j]]; had && other != i && r.most == 0 {
					t.Fatalf("expert %d is in two messages", out.Expert[j])
				}
				at[out.Expert[j]] = i
			}
		}
		if len(seen) != rows*k-left {
			t.Fatalf("%d of %d routed rows, %d are left out", len(seen), rows*k, left)
		}
	})
}

// Replicas of a function that a plan for batches rents get equally many rows of it.
func TestRentedForBatches(t *testing.T) {
	to := rentedOn(t, nil, [][]uint32{{0}, {1}}, "a", "b c")
	to.Targets[1].Transfer = plan.Direct
	a := &addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: true, heard: live("a", "b", "c")}, slow: slow(nil), key: &pb.Key{}}
	routes := each(0, 5)
	h := hidden(len(routes.Expert))
	a.look(a.key)
	var r renting
	s, d := newSplitter(width), newDivision()
	var rows []int
	for _, out := range s.split(h, routes, to, r.ways(h, a, to, routes, d.ways(a, to, routes))) {
		rows = append(rows, len(out.Expert))
	}
	if slices.Sort(rows); !slices.Equal(rows, []int{2, 3}) {
		t.Errorf("messages have %v rows", rows)
	}
}
