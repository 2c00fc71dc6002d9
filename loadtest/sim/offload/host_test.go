package offload

import (
	"fmt"
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// pair is a model of two layers with one expert each, on one host, with 3 decode steps.
func pair(t *testing.T) *Lab {
	t.Helper()
	m := Model{Name: "pair", Shape: routing.Shape{Layers: 2, Experts: 1, TopK: 1}, ExpertBytes: 320e6}
	traffic, err := Synthetic(m, routing.StateParams{Sharp: 1}, Texts{Before: 2, Served: 1, Prompt: 1, Answer: 4, Domains: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := bed(t)
	b.Hosts = 1
	lab, err := NewLab(traffic, b, DefaultDelays(), 1, 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	return lab
}

// What the memory below does not have comes from its store, before it comes to a host.
func TestBelow(t *testing.T) {
	demand, err := Find(OnDemand)
	if err != nil {
		t.Fatal(err)
	}
	plain := run(t, pair(t), demand, 320e6) // both experts are loaded in each step
	const store = 0.1 + 320e6/2e9
	for experts, loads := range map[float64][2]float64{1: {2, 2}, 2: {2, 0}} {
		lab := pair(t)
		lab.Below = Below{experts * 320e6, cost.Link{Latency: 0.1, Bandwidth: 2e9}}
		r := run(t, lab, demand, 320e6)
		if a, b := r.TTFT()-plain.TTFT(), r.TPOT()-plain.TPOT(); math.Abs(a-loads[0]*store) > 1e-6 || math.Abs(b-loads[1]*store) > 1e-6 {
			t.Errorf("memory for %v: prompts take %v longer, steps %v", experts, a, b)
		}
	}
}

// The store's link has one load at a time. What rows wait for passes what is fetched ahead at the end
// of a piece, and what another host has brought need not come again.
func TestStoreLink(t *testing.T) {
	lab := tinyLab(t, routing.DemoStates(), 1, 1)
	lab.Hosts, lab.Below = 3, Below{1e9, cost.Link{Bandwidth: 1e9}}
	e := &engine{Settings: Settings{Testbed: lab.Testbed, Budget: 3e9}, w: lab.work, r: &Result{}, hosts: make([]host, 3), units: make([]state, 30), layer: -1}
	e.r.Prefill.busy, e.phase = make([]float64, 3), &e.r.Prefill
	e.policy.Order = "lru"
	e.below = newBelow(e)
	for h := range e.hosts {
		if err := e.open(h); err != nil {
			t.Fatal(err)
		}
	}
	want := func(host, unit int, rows bool) {
		h := &e.hosts[host]
		e.units[unit].demanded = rows
		u := residency.Hinted
		if rows {
			u = residency.Demanded
			h.groups = [][]int{{unit}}
		} else {
			h.hinted, e.units[unit].hinted = append(h.hinted, unit), true
		}
		h.m.Want(residency.Want{Unit: e.unit(unit), Bytes: 100e6, Urgency: u})
		h.do()
	}
	want(0, 0, false)
	want(1, 1, false)
	if err := e.advance(0.01); err != nil {
		t.Fatal(err)
	}
	e.hold = true // nothing computes
	want(2, 2, true)
	var got []string
	for len(got) < 3 {
		before := e.now
		next := e.next()
		e.happen(next)
		for i := range 3 {
			if e.hosts[i].holds(i) && !contains(got, i) {
				got = append(got, fmt.Sprint(i))
			}
		}
		if e.now < before || math.IsInf(next.at, 1) {
			t.Fatalf("at %v comes %v", before, next.at)
		}
	}
	if fmt.Sprint(got) != "[2 1 0]" { // the first is behind those that waited
		t.Errorf("%v", got)
	}
	if b := e.below; b.at != nil || len(b.line) != 0 || b.m.References(e.unit(0))+b.m.References(e.unit(1))+b.m.References(e.unit(2)) != 0 {
		t.Errorf("%+v", b)
	}
}

func contains(all []string, i int) bool {
	for _, one := range all {
		if one == fmt.Sprint(i) {
			return true
		}
	}
	return false
}

// A host hears of what it is to fetch, and of what the next step asks; it knows of steps by that and by
// its rows alone.
func TestHears(t *testing.T) {
	lab := tinyLab(t, routing.DemoStates(), 1, 1)
	e := &engine{Settings: Settings{Testbed: lab.Testbed, Budget: 6e9}, w: lab.work, r: &Result{}, hosts: make([]host, 6), units: make([]state, 30), layer: -1}
	e.r.Prefill.busy, e.phase = make([]float64, 6), &e.r.Prefill
	e.policy.Order = "fmoe"
	for h := range e.hosts {
		if err := e.open(h); err != nil {
			t.Fatal(err)
		}
	}
	told := []float32{0.5, 0.25, 0.25, 0, 0, 0}
	chance := func(host, unit int) float64 {
		p, ok := e.hosts[host].outlook.Chance(e.unit(unit))
		if !ok {
			return -1
		}
		return p
	}
	e.arrive(arrival{0, 0, 1, []Look{{Target: 3, Told: told, Fetch: []Hint{{0, 0.5}}}}}) // expert 18, of host 0
	if h := &e.hosts[0]; h.known != 0 || h.reached != 1 || chance(0, 18) != 0.5 || !e.units[18].hinted {
		t.Errorf("%d %d %v %+v", h.known, h.reached, chance(0, 18), e.units[18])
	}
	if h := &e.hosts[1]; h.known != -1 || chance(1, 19) != -1 {
		t.Errorf("a host that is to fetch nothing knows of step %d, and %v", h.known, chance(1, 19))
	}
	e.arrive(arrival{0, 0, 3, []Look{{Target: 3, Told: told, Next: true}, {Target: 2, Fetch: []Hint{{1, 0.5}}}}})
	if h := &e.hosts[1]; h.known != 0 || h.reached != 3 || chance(1, 19) != 0.25 || e.r.Dropped != 1 {
		t.Errorf("%d %d %v, %d dropped", h.known, h.reached, chance(1, 19), e.r.Dropped)
	}
	if h := &e.hosts[0]; h.reached != 3 || !e.units[18].hinted { // its load has begun
		t.Errorf("%d %+v", h.reached, e.units[18])
	}
	e.hosts[0].advance(4)
	if e.units[18].hinted || e.hosts[0].running != none {
		t.Errorf("what is for a layer that is over goes on: %+v", e.units[18])
	}
	e.arrive(arrival{0, -1, 3, []Look{{Target: 4, Fetch: []Hint{{0, 0.5}}}}})
	if e.r.Dropped != 2 {
		t.Errorf("%d hints are dropped", e.r.Dropped)
	}
}

// A hint that finds no room is tried again when rows have given some back.
func TestRetries(t *testing.T) {
	lab := tinyLab(t, routing.DemoStates(), 1, 1)
	e := &engine{Settings: Settings{Testbed: lab.Testbed, Budget: 6 * 100e6}, w: lab.work, r: &Result{}, hosts: make([]host, 6), units: make([]state, 30), layer: 0}
	e.r.Prefill.busy, e.phase = make([]float64, 6), &e.r.Prefill
	e.policy.Order = "fmoe"
	for h := range e.hosts {
		if err := e.open(h); err != nil {
			t.Fatal(err)
		}
	}
	e.hosts[0].dispatch(0)
	if len(e.hosts[0].groups) == 0 {
		t.Skip("no rows")
	}
	e.arrive(arrival{0, 0, 0, []Look{{Target: 2, Fetch: []Hint{{0, 0.5}}}}})
	if err := e.until(func() bool { return e.hosts[0].calls }); err != nil {
		t.Fatal(err)
	}
	if s := e.units[12]; !s.roomless || s.hinted {
		t.Fatalf("%+v, while rows have the room", s)
	}
	if err := e.until(func() bool { return e.hosts[0].holds(12) }); err != nil {
		t.Fatal(err)
	}
	if e.pending != 0 || !e.units[12].fetched {
		t.Errorf("%d hosts are not done; %+v", e.pending, e.units[12])
	}
}
