package place

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// draw draws a state; the hosts may have too little room.
func draw(t *rapid.T) State {
	s := State{}
	for i := range rapid.IntRange(1, 6).Draw(t, "hosts") {
		s.Hosts = append(s.Hosts, Host{ID: fmt.Sprintf("host-%d", i), Capacity: rapid.Uint64Range(0, 300).Draw(t, "capacity")})
	}
	for i := range rapid.IntRange(1, 10).Draw(t, "experts") {
		s.Experts = append(s.Experts, Expert{
			ID: uint32(i), Replicas: rapid.IntRange(0, 4).Draw(t, "replicas"), LoadEach: float64(rapid.IntRange(0, 20).Draw(t, "load")),
			Bytes: rapid.Uint64Range(1, 50).Draw(t, "bytes"),
		})
		for range rapid.IntRange(0, 2).Draw(t, "warm") {
			s.Previous = append(s.Previous, Warm{uint32(i), fmt.Sprintf("host-%d", rapid.IntRange(0, 7).Draw(t, "on"))})
		}
	}
	return s
}

func shuffled(t *rapid.T, s State) State {
	s.Experts = rapid.Permutation(s.Experts).Draw(t, "experts' order")
	s.Hosts = rapid.Permutation(s.Hosts).Draw(t, "hosts' order")
	s.Previous = rapid.Permutation(s.Previous).Draw(t, "previous order")
	return s
}

// Whatever the policy: all replicas are placed or the error is ErrNoRoom, no
// host holds more than its memory, the hosts' loads are those of their
// replicas, warm is what was there, and the order of the input is nothing.
func TestProperties(t *testing.T) {
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := draw(t)
				if err := Check(s); err != nil {
					t.Fatal(err)
				}
				p, err := policy(s)
				if again, failed := policy(shuffled(t, s)); !reflect.DeepEqual(p, again) || (err == nil) != (failed == nil) {
					t.Fatalf("%v, %v\n%v, %v", p, err, again, failed)
				}
				if err != nil {
					if !errors.Is(err, ErrNoRoom) {
						t.Fatal(err)
					}
					return
				}
				checkReplicas(t, s, p)
				checkHostsOf(t, s, p)
			})
		})
	}
}

func checkReplicas(t *rapid.T, s State, p Placement) {
	count, warm := map[uint32]int{}, map[Warm]int{}
	for _, r := range p.Replicas {
		count[r.Expert]++
		if r.Warm {
			warm[Warm{r.Expert, r.Host}]++
		}
	}
	for _, e := range s.Experts {
		if count[e.ID] != e.Replicas {
			t.Fatalf("expert %d has %d of %d replicas", e.ID, count[e.ID], e.Replicas)
		}
	}
	for w, n := range warm {
		if n > 1 || !slices.Contains(s.Previous, w) {
			t.Fatalf("%v is warm %d times", w, n)
		}
	}
	if !slices.IsSortedFunc(p.Replicas, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Expert, b.Expert), cmp.Compare(a.Host, b.Host))
	}) {
		t.Fatalf("%v is not sorted", p.Replicas)
	}
}

func checkHostsOf(t *rapid.T, s State, p Placement) {
	byID := map[uint32]Expert{}
	for _, e := range s.Experts {
		byID[e.ID] = e
	}
	for i, h := range s.Hosts { // drawn in the order of their ids
		want := Filled{ID: h.ID}
		for _, r := range p.Replicas {
			if r.Host == h.ID {
				want.Load += byID[r.Expert].LoadEach
				want.Bytes += byID[r.Expert].Bytes
			}
		}
		if p.Hosts[i] != want || want.Bytes > h.Capacity {
			t.Fatalf("%+v, want %+v in %d bytes", p.Hosts[i], want, h.Capacity)
		}
	}
}

// MoEless, §4.3: algorithm 2, line by line over lists in place of the queue.
func TestMoElessIsAlgorithm2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		p, err := MoEless(s)
		if want, ok := algorithm2(s); ok != (err == nil) || ok && !slices.Equal(p.Replicas, want) {
			t.Fatalf("got %v, %v; want %v, %v", p.Replicas, err, want, ok)
		}
	})
}

// slow is a host of algorithm2.
type slow struct {
	Host
	load  float64
	left  uint64
	holds map[uint32]bool
}

func algorithm2(s State) (p []Replica, ok bool) {
	var all []*slow // line 1
	for _, h := range s.Hosts {
		all = append(all, &slow{Host: h, left: h.Capacity, holds: map[uint32]bool{}})
	}
	var rest []Expert // one for each replica
	for _, e := range s.Experts {
		for range e.Replicas {
			rest = append(rest, e)
		}
	}
	slices.SortStableFunc(rest, func(a, b Expert) int { return cmp.Compare(b.LoadEach, a.LoadEach) })
	for _, e := range rest { // lines 3 and 4
		warm := func(h *slow) bool { return slices.Contains(s.Previous, Warm{e.ID, h.ID}) && !h.holds[e.ID] }
		g := leastLoaded(all, e, warm) // lines 5 and 6
		r := Replica{Expert: e.ID, Warm: g != nil}
		if g == nil { // lines 7 and 8
			g = leastLoaded(all, e, func(h *slow) bool { return !h.holds[e.ID] })
		}
		if g == nil {
			g = leastLoaded(all, e, func(*slow) bool { return true })
		}
		if g == nil {
			return nil, false
		}
		r.Host = g.ID
		p = append(p, r)
		g.load, g.left, g.holds[e.ID] = g.load+e.LoadEach, g.left-e.Bytes, true // lines 9 and 10
	}
	slices.SortFunc(p, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Expert, b.Expert), cmp.Compare(a.Host, b.Host), map[bool]int{true: -1, false: 1}[a.Warm])
	})
	return p, true
}

// leastLoaded is the first of the hosts with least load that have room and pass.
func leastLoaded(all []*slow, e Expert, pass func(*slow) bool) (best *slow) {
	for _, h := range all {
		if h.left >= e.Bytes && pass(h) && (best == nil || h.load < best.load) {
			best = h
		}
	}
	return best
}

// MoEless, §4.3: function locality. What is placed stays where it is as long as
// the plan is the same, also when loads have changed.
func TestUnchangedPlanMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t)
		first, err := MoEless(s)
		if err != nil || beside(first) {
			t.Skip("nothing to keep")
		}
		s.Previous = nil
		for _, r := range first.Replicas {
			s.Previous = append(s.Previous, Warm{r.Expert, r.Host})
		}
		for i := range s.Experts {
			s.Experts[i].LoadEach = float64(rapid.IntRange(0, 20).Draw(t, "new load"))
		}
		again, err := MoEless(s)
		if err != nil || len(again.Replicas) != len(first.Replicas) {
			t.Fatal(err, again)
		}
		for i, r := range again.Replicas {
			if !r.Warm || r.Host != first.Replicas[i].Host {
				t.Fatalf("%v moved: it was %v", r, first.Replicas[i])
			}
		}
	})
}

// beside reports whether a host holds an expert twice.
func beside(p Placement) bool {
	for i := 1; i < len(p.Replicas); i++ {
		if p.Replicas[i].Expert == p.Replicas[i-1].Expert && p.Replicas[i].Host == p.Replicas[i-1].Host {
			return true
		}
	}
	return false
}

func makespan(p Placement) float64 {
	return slices.MaxFunc(p.Hosts, func(a, b Filled) int { return cmp.Compare(a.Load, b.Load) }).Load
}

// optimum is the least makespan of all placements, by trying them: replicas of
// these loads on m hosts, none of which is full.
func optimum(loads []float64, m int) float64 {
	best := math.Inf(1)
	sums := make([]float64, m)
	var try func(i int, most float64)
	try = func(i int, most float64) {
		if most >= best {
			return
		}
		if i == len(loads) {
			best = most
			return
		}
		for h := range sums {
			sums[h] += loads[i]
			try(i+1, max(most, sums[h]))
			sums[h] -= loads[i]
			if sums[h] == 0 {
				return // the other empty hosts are the same
			}
		}
	}
	try(0, 0)
	return best
}

// Without warm replicas and with room, algorithm 2 is Longest Processing Time
// first, whose makespan is at most 4/3 − 1/(3m) of the optimum (Graham, Bounds
// on Multiprocessing Timing Anomalies, 1969, theorem 2).
func TestMakespan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads, s := small(t, 1)
		p, err := MoEless(s)
		m := float64(len(s.Hosts))
		if best := optimum(loads, len(s.Hosts)); err != nil || makespan(p) > (4.0/3-1/(3*m))*best+1e-9 {
			t.Fatalf("makespan %g, optimum %g, %v", makespan(p), best, err)
		}
	})
}

// An expert's replicas are kept apart, which the optimum need not do: then the
// bound is list scheduling's, 2 − 1/m (theorem 1).
func TestMakespanOfReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		loads, s := small(t, 3)
		p, err := MoEless(s)
		m := float64(len(s.Hosts))
		if best := optimum(loads, len(s.Hosts)); err != nil || makespan(p) > (2-1/m)*best+1e-9 {
			t.Fatalf("makespan %g, optimum %g, %v", makespan(p), best, err)
		}
	})
}

// small draws a state that can be solved: at most 9 replicas on 3 hosts.
func small(t *rapid.T, most int) (loads []float64, s State) {
	s.Hosts = hosts(1000, 1000, 1000)[:rapid.IntRange(1, 3).Draw(t, "hosts")]
	for i := range rapid.IntRange(1, 9).Draw(t, "experts") {
		n := rapid.IntRange(1, min(most, len(s.Hosts))).Draw(t, "replicas")
		if len(loads)+n > 9 {
			break
		}
		load := float64(rapid.IntRange(0, 30).Draw(t, "load"))
		s.Experts = append(s.Experts, expert(uint32(i), n, load))
		for range n {
			loads = append(loads, load)
		}
	}
	return loads, s
}
