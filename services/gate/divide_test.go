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

// reads takes 100 s to read an expert, and 1 s a row: from 100 rows on a row costs.
var reads = divide.Takes{Read: 100, Row: 1}

// warmOn are routes with a function for each entry, warm on its hosts, divided by what
// accesses take; nil: evenly.
func warmOn(t interface{ Fatal(...any) }, takes *divide.Takes, functions [][]uint32, hosts ...string) *plan.Routes {
	lp, warm, experts := &pb.LayerPlan{}, map[string][]string{}, 0
	if takes != nil {
		lp.Division = plan.Access(*takes)
	}
	for i, of := range functions {
		on := strings.Fields(hosts[i])
		f := plan.Function(0, of, on...)
		lp.Functions, warm[f.Id] = append(lp.Functions, f), on
		experts += len(of)
	}
	l, err := plan.Rules{MoELayers: []int{0}, Experts: experts}.Check(lp)
	if err != nil {
		t.Fatal(err)
	}
	return l.Next(nil, func(f string) plan.Replicas { return plan.Replicas{Serving: warm[f], Joined: true} })
}

// each has so many rows for each expert, of one slot.
func each(rows ...int) *forward.Routes {
	r := &forward.Routes{K: 1}
	for e, n := range rows {
		for range n {
			r.Expert, r.Weight = append(r.Expert, int32(e)), append(r.Weight, 1)
		}
	}
	return r
}

// sent is how many rows go where, "group" for a function's group.
func sent(to *plan.Routes, all []outgoing) (text []string) {
	for _, out := range all {
		f := slices.IndexFunc(to.Targets, func(t plan.Target) bool { return t.Id == out.function })
		host := out.host
		if host == "" {
			host = "group"
		}
		text = append(text, fmt.Sprintf("%d:%s=%d", f, host, out.Tensor.Rows))
	}
	slices.Sort(text)
	return text
}

func TestDivision(t *testing.T) {
	single := [][]uint32{{0}, {1}}
	states := func(host string, s quarantine.State) map[string]quarantine.State {
		return map[string]quarantine.State{host: s}
	}
	for _, tc := range []struct {
		name      string
		functions [][]uint32
		hosts     []string
		rows      []int
		change    func(*addresses, *plan.Routes)
		want      []string
	}{
		{"few rows stay at home", single, []string{"a b c", "b"}, []int{8, 1}, nil, []string{"0:a=8", "1:group=1"}},
		{"many are divided", single, []string{"a b c", "b"}, []int{600, 1}, nil, []string{"0:a=200", "0:b=200", "0:c=200", "1:group=1"}},
		{"one replica", single, []string{"a", "b"}, []int{600, 600}, nil, []string{"0:group=600", "1:group=600"}},
		{"a cold function", single, []string{"a b", ""}, []int{600, 5}, nil, []string{"0:a=300", "0:b=300", "1:group=5"}},
		{"an old plan", single, []string{"a b", "b"}, []int{8, 1}, func(_ *addresses, r *plan.Routes) { r.Plan.Division = nil }, []string{"0:group=4", "0:group=4", "1:group=1"}},
		{"a slow host", single, []string{"a b c", "b"}, []int{600, 1}, func(a *addresses, _ *plan.Routes) { a.slow = slow(states("a", quarantine.Avoided)) }, []string{"0:b=300", "0:c=300", "1:group=1"}},
		{"all are slow", single, []string{"a", "b c"}, []int{1, 600}, func(a *addresses, _ *plan.Routes) {
			a.slow = slow(map[string]quarantine.State{"b": quarantine.Avoided, "c": quarantine.Avoided})
		}, []string{"0:group=1", "1:group=300", "1:group=300"}},
		{"a host that is gone", single, []string{"a b c", "b"}, []int{600, 1}, func(a *addresses, _ *plan.Routes) { a.hosts = &fakeRoster{heard: live("b", "c")} }, []string{"0:b=300", "0:c=300", "1:b=1"}},
		{"all but one are gone", single, []string{"a b c", "b"}, []int{600, 1}, func(a *addresses, _ *plan.Routes) { a.hosts = &fakeRoster{heard: live("b")} }, []string{"0:b=600", "1:b=1"}},
		{"rows that were lost", single, []string{"a b c", "b"}, []int{600, 1}, func(a *addresses, _ *plan.Routes) { a.key.Attempt = 1 }, []string{"0:b=600", "1:b=1"}},
		{"several experts together", [][]uint32{{0, 1, 2, 3}, {4}}, []string{"a b", "a"}, []int{60, 60, 60, 60, 0}, nil, []string{"0:a=240"}},
		{"and many rows of them", [][]uint32{{0, 1}, {2}}, []string{"a b", "a"}, []int{400, 400, 0}, nil, []string{"0:a=400", "0:b=400"}},
	} {
		to := warmOn(t, &reads, tc.functions, tc.hosts...)
		a := &addresses{subjects: schemas.NewSubjects("yard", "demo"), hosts: &fakeRoster{steady: true, heard: live("a", "b", "c")}, slow: slow(nil), key: &pb.Key{}}
		if tc.change != nil {
			tc.change(a, to)
		}
		routes := each(tc.rows...)
		h := hidden(len(routes.Expert))
		a.look(a.key)
		d, s := newDivision(), newSplitter(width)
		got := sent(to, s.split(h, routes, to, d.ways(a, to, routes)))
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
		a.look(a.key)
		if again := sent(to, s.split(h, routes, to, d.ways(a, to, routes))); !slices.Equal(again, got) {
			t.Errorf("%s: %v, then %v", tc.name, got, again)
		}
	}
}

// Every routed row goes once: to a host that has its function, or to the function's group.
func TestDivisionRows(t *testing.T) {
	d, s := newDivision(), newSplitter(width)
	rapid.Check(t, func(t *rapid.T) {
		experts, hosts := rapid.IntRange(1, 8).Draw(t, "experts"), []string{"a", "b", "c", "d"}
		var functions [][]uint32
		var on []string
		for e := range uint32(experts) {
			if n := len(functions); n > 0 && rapid.Bool().Draw(t, "together") {
				functions[n-1] = append(functions[n-1], e)
				continue
			}
			functions = append(functions, []uint32{e})
			on = append(on, strings.Join(rapid.SliceOfNDistinct(rapid.SampledFrom(hosts), 0, 4, rapid.ID).Draw(t, "on"), " "))
		}
		takes := rapid.SampledFrom([]divide.Takes{reads, {Row: 1}, {Read: 3, Row: 1, Unit: 1, Call: 2}, {}}).Draw(t, "takes")
		to := warmOn(t, &takes, functions, on...)
		rows, k := rapid.IntRange(1, 60).Draw(t, "rows"), rapid.IntRange(1, experts).Draw(t, "k")
		h, routes := hidden(rows), drawRoutes(t, rows, k, experts)
		left := leaveOut(t, routes)
		states := map[string]quarantine.State{}
		for _, id := range rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "slow") {
			states[id] = rapid.SampledFrom([]quarantine.State{quarantine.Avoided, quarantine.Tried}).Draw(t, "state")
		}
		a := &addresses{hosts: &fakeRoster{
			steady: rapid.Bool().Draw(t, "steady"), heard: live(rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "heard")...),
		}, slow: slow(states)}
		h.Key.Attempt, h.Key.Step = rapid.Uint32Range(0, 2).Draw(t, "attempt"), rapid.Uint64Range(0, 9).Draw(t, "step")
		a.look(h.Key)
		seen := map[uint32]bool{}
		for _, out := range s.split(h, routes, to, d.ways(a, to, routes)) {
			checkDispatch(t, out, h, routes, to)
			has := to.Targets[to.Of(int32(out.Expert[0]))].Hosts
			if h.Key.Attempt == 0 && out.host != "" && !slices.Contains(has, out.host) && len(has) > 0 && a.heard[has[0]] {
				t.Fatalf("rows of a function on %v go to %s", has, out.host)
			}
			for _, place := range out.Place {
				if seen[place] {
					t.Fatalf("place %d is in two messages", place)
				}
				seen[place] = true
			}
		}
		if len(seen) != rows*k-left {
			t.Fatalf("%d of %d routed rows, %d are left out", len(seen), rows*k, left)
		}
	})
}

// What a message's rows take to be split, each function on two of eight hosts: go test -bench Split,
// for benchstat.
func BenchmarkSplit(b *testing.B) {
	for _, experts := range []int{8, 64, 256} {
		for _, rows := range []int{32, 2048} {
			functions, hosts := make([][]uint32, experts), make([]string, experts)
			for e := range functions {
				functions[e], hosts[e] = []uint32{uint32(e)}, fmt.Sprintf("h%d h%d", e%8, (e+1+e/8)%8)
				if e%8 == (e+1+e/8)%8 {
					hosts[e] = fmt.Sprintf("h%d", e%8)
				}
			}
			for name, takes := range map[string]*divide.Takes{"evenly": nil, "divided": {Read: 0.46e-3, Row: 4.6e-6, Call: 45e-6}} {
				b.Run(fmt.Sprintf("%s/experts=%d/rows=%d", name, experts, rows), func(b *testing.B) {
					benchmarkSplit(b, warmOn(b, takes, functions, hosts...), experts, rows)
				})
			}
		}
	}
}

func benchmarkSplit(b *testing.B, to *plan.Routes, experts, rows int) {
	const k, hiddenSize = 2, 512
	routes := &forward.Routes{K: k, Expert: make([]int32, rows*k), Weight: make([]float32, rows*k)}
	for row := range rows {
		routes.Expert[k*row] = int32(row * row % 97 % experts)
		routes.Expert[k*row+1] = (routes.Expert[k*row] + 1 + int32(row)%3) % int32(experts)
	}
	h := hidden(1)
	h.Key.Rows, h.Tensor = uint32(rows), &pb.Tensor{Rows: uint32(rows), Cols: hiddenSize, Data: make([]byte, 2*hiddenSize*rows)}
	a := &addresses{hosts: &fakeRoster{steady: true}, slow: slow(nil)}
	d, s := newDivision(), newSplitter(hiddenSize)
	b.ReportAllocs()
	for b.Loop() {
		a.look(h.Key)
		s.split(h, routes, to, d.ways(a, to, routes))
	}
}
