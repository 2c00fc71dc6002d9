package sim

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/residency"
	"github.com/switchyard/switchyard/pkg/policy/world"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// tiny is a device that computes a row in 2 ms, takes it there and back in 1 ms
// each, and loads an expert of 1 GB in a second, a quarter of one after it is wanted.
func tiny(layers, experts int) Model {
	n := func(v float64) profiles.Number { return profiles.Number{Value: v} }
	return Model{Name: "tiny", Shape: routing.Shape{Layers: layers, Experts: experts, TopK: 1}, Profile: &profiles.Profile{
		Time: profiles.Printed, Alpha: n(2e-3), Beta: n(1e-3), ExpertBytes: n(1e9), MemoryBytes: n(float64(layers) * 4e9), Bandwidth: n(1e9), ColdStart: n(0.25),
	}}
}

func settings(m Model, hosts int) Settings {
	return Settings{Model: m, Hosts: hosts, CV: 0.2, Distance: 1, Accuracy: []float64{1}, KeepAlive: 60}
}

// loads is a workload of iterations ten seconds apart; each has loads of every
// expert of every layer.
func loads(t testing.TB, m Model, iterations ...[]uint32) *Workload {
	var its []Iteration
	for i, ns := range iterations {
		it := Iteration{Due: float64(10 * i)}
		for _, n := range ns {
			it.Rows += int(n)
		}
		its = append(its, it)
	}
	w, err := NewWorkload(m.Shape, its)
	if err != nil {
		t.Fatal(err)
	}
	for i, ns := range iterations {
		copy(w.loads[i*m.Layers*m.Experts:], ns)
	}
	return w
}

func policy(name string) Policy {
	for _, p := range Policies() {
		if p.Name == name {
			return p
		}
	}
	panic("there is no policy " + name)
}

func run(t testing.TB, w *Workload, s Settings, p Policy) *Result {
	r, err := Run(w, s, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*(1+math.Abs(b)) }

// One layer of four experts on two hosts, three times the same rows. Experts 0 and
// 2 are on host 0, the others on host 1.
//
//	static: 7 and 3 rows; 7·2 ms + 2·7·1 ms = 28 ms each time. 4 GB are held for
//	20.028 s.
//	moeless: nothing is known of the first iteration. In the second, at 10 s,
//	experts have 6, 2, 1, 1 rows, CV 0.82. Expert 0 gets a second replica, which is
//	on host 1 after 1.25 s. So the third has 3+1 rows on host 0 and 3+2+1 on host 1,
//	24 ms. A replica more, (4·28 + 5·28 + 5·24) ms·GB, and 4 GB for 20.024 s with
//	one for 10.024 s.
//	oracle: 5 rows on each host, 20 ms each time; 4 GB for 20.020 s.
func TestByHand(t *testing.T) {
	m, rows := tiny(1, 4), []uint32{6, 2, 1, 1}
	w := loads(t, m, rows, rows, rows)
	for _, tc := range []struct {
		policy                                         string
		mean, cost, resident, elapsed, byReplica, cold float64
	}{
		{"static", 28, 80.112, 80.112, 20.028, 26, 0},
		{"moeless", 80.0 / 3, 0.372, 90.12, 20.024, 70.0 / 3, 1},
		{"oracle", 20, 80.08, 80.08, 20.020, 20, 0},
	} {
		r := run(t, w, settings(m, 2), policy(tc.policy))
		got := []float64{r.Mean() * 1e3, r.Cost, r.Resident, r.Elapsed, r.ByReplica * 1e3, float64(r.ColdStarts), float64(r.Waits), float64(r.Rows)}
		want := []float64{tc.mean, tc.cost, tc.resident, tc.elapsed, tc.byReplica, tc.cold, 0, 30}
		for i := range got {
			if !near(got[i], want[i]) {
				t.Errorf("%s: mean, cost, resident, elapsed, by replica, cold starts, waits, rows are\n%v, want\n%v", tc.policy, got, want)
				break
			}
		}
	}
}

// By hand, with 5 ms a message: each of two hosts gets one, or each of four replicas.
func TestMessages(t *testing.T) {
	m := tiny(1, 4)
	w := loads(t, m, []uint32{6, 2, 1, 1})
	for _, tc := range []struct {
		policy string
		apart  bool
		want   float64
	}{{"static", false, 38}, {"static", true, 48}, {"oracle", false, 30}} {
		s := settings(m, 2)
		s.MessageSeconds, s.Apart = 5e-3, tc.apart
		if got := run(t, w, s, policy(tc.policy)).Mean() * 1e3; !near(got, tc.want) {
			t.Errorf("%s, apart %v: a layer takes %v ms, want %v", tc.policy, tc.apart, got, tc.want)
		}
	}
	s := settings(m, 2)
	s.MessageSeconds = math.NaN()
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "a message's NaN s must all be 0 or above") {
		t.Errorf("%v", err)
	}
}

// rooflined is tiny with 1 s to read an expert's weights, 1 ms a row beside that, and
// 10 ms a call: computing takes longer than reading from 1,000 rows on.
func rooflined(layers, experts int) Model {
	n := func(v float64) profiles.Number { return profiles.Number{Value: v} }
	m := tiny(layers, experts)
	p := m.Profile
	p.Time, p.Read, p.Rate, p.Element, p.Call = profiles.Roofline, n(1e9), n(1e12), n(2), n(10e-3)
	return m
}

// The rows of TestByHand, where an access takes what reading takes: two accesses a host,
// however their rows are divided, so that a second replica makes its host slower.
//
//	static: 2 s, 10 ms, and 7 rows there and back, 14 ms.
//	oracle: four accesses and ten rows on two hosts: 2 s, 10 ms and 10 ms.
func TestRoofline(t *testing.T) {
	m, rows := rooflined(1, 4), []uint32{6, 2, 1, 1}
	w := loads(t, m, rows)
	for name, want := range map[string]float64{"static": 2.024, "oracle": 2.020} {
		if got := run(t, w, settings(m, 2), policy(name)).Mean(); !near(got, want) {
			t.Errorf("%s takes %v s, want %v", name, got, want)
		}
	}
	w = loads(t, m, rows, rows, rows)
	static, moeless := run(t, w, settings(m, 2), policy("static")), run(t, w, settings(m, 2), policy("moeless"))
	if moeless.Layers[2] <= static.Layers[2] {
		t.Errorf("a second replica is read in no time: %v s, static %v s", moeless.Layers, static.Layers)
	}
}

// An expert without rows for the keep-alive goes to zero. Its first rows wait for
// the cold start and the transfer, which is what a policy without prediction pays.
func TestToZeroAndBack(t *testing.T) {
	m := tiny(1, 2)
	w := loads(t, m, []uint32{1, 0}, []uint32{1, 0}, []uint32{1, 0}, []uint32{1, 1})
	s := settings(m, 2)
	s.KeepAlive = 15
	p := Policy{Name: "as at first", Decide: func(*world.World) (world.Decision, error) {
		return world.Decision{Layers: []world.Placement{{Replicas: []world.Replica{{Unit: 0, Host: 0}, {Unit: 1, Host: 1}}}}}, nil
	}}
	r := run(t, w, s, p)
	// A row takes 4 ms, two on one host 8 ms: expert 1 comes back on host 0, whose link
	// is free, after 1.25 s, and is loaded for host 1 behind the last iteration.
	want := []float32{0.004, 0.004, 0.004, 1.258}
	if r.Waits != 1 || r.ColdStarts != 2 || !slices.Equal(r.Layers, want) {
		t.Errorf("%+v, want layers %v", r, want)
	}
	// Expert 0 is held all the time, expert 1 for 15 s and from the wait on.
	if want := 31.258 + 15 + 1.258; !near(r.Resident, want) {
		t.Errorf("resident %v, want %v", r.Resident, want)
	}
	if want := 2*0.004 + 2*0.004 + 0.004 + 2*1.258; !near(r.Cost, want) {
		t.Errorf("cost %v, want %v", r.Cost, want)
	}
}

// The short keep-alive of a policy is for replicas beside the last one.
func TestLastReplicaStays(t *testing.T) {
	m := tiny(1, 2)
	w := loads(t, m, []uint32{8, 8}, []uint32{16, 0}, []uint32{16, 0}, []uint32{8, 8})
	for _, tt := range []struct {
		name   string
		keep   float64
		waited bool
	}{{"the settings'", 60, false}, {"a short one", 5, true}} {
		s := settings(m, 2)
		s.KeepAlive = tt.keep
		if r := run(t, w, s, policy("moeless+lean")); (r.Waits > 0) != tt.waited {
			t.Errorf("keep-alive %s: rows waited %d times", tt.name, r.Waits)
		}
	}
}

// A host's transfers follow each other.
func TestLink(t *testing.T) {
	m := tiny(1, 4)
	e := newEngine(&replayed{Workload: loads(t, m)}, settings(m, 2), Policy{})
	e.load(&e.layers[0], 1, 0, 0, residency.Planned)
	e.load(&e.layers[0], 3, 0, 0.5, residency.Planned)
	for x, want := range map[int]float64{1: 1.25, 3: 2.25} {
		if r := e.layers[0].replicas[e.layers[0].find(x, 0)]; !near(r.ready, want) {
			t.Errorf("expert %d is ready after %v s, want %v", x, r.ready, want)
		}
	}
}

func TestRefused(t *testing.T) {
	m := tiny(2, 4)
	w := loads(t, m)
	for name, tc := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"hosts":    {func(s *Settings) { s.Hosts = 0 }, "0 hosts"},
		"memory":   {func(s *Settings) { s.Hosts, s.Model.Profile.MemoryBytes.Value = 1, 7e9 }, "hold fewer than the 4 experts"},
		"distance": {func(s *Settings) { s.Distance = 3 }, "prediction distance is 3"},
		"accuracy": {func(s *Settings) { s.Accuracy = []float64{1.5} }, "accuracy of distance 1 is 1.5"},
		"none":     {func(s *Settings) { s.Accuracy = nil }, "no accuracy"},
		"CV":       {func(s *Settings) { s.CV = math.NaN() }, "CV is NaN"},
		"shape":    {func(s *Settings) { s.Model.Experts = 5 }, "the workload is of"},
	} {
		s := settings(tiny(2, 4), 2)
		tc.change(&s)
		if _, err := Run(w, s, policy("moeless")); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// A placement may have two replicas of an expert on one host, where no other takes it: each
// row of theirs is computed all the same.
func TestTwoOnOneHost(t *testing.T) {
	m := tiny(1, 2)
	twice := Policy{Name: "twice", Every: 5, Decide: func(*world.World) (world.Decision, error) {
		return world.Decision{Layers: []world.Placement{{Replicas: []world.Replica{{Unit: 0, Host: 1}, {Unit: 0, Host: 1}}}}}, nil
	}}
	for _, divides := range []bool{false, true} {
		twice.Divides = divides
		if r := run(t, loads(t, m, []uint32{7, 0}, []uint32{5, 0}, []uint32{5, 0}), settings(m, 2), twice); r.Rows != 17 {
			t.Errorf("divides %v: %d rows of 17", divides, r.Rows)
		}
	}
}

// Whatever the loads and the policy: hosts compute every row once, no host holds
// more than fits, the oracle is fastest, and the same seed gives the same result.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := rapid.SampledFrom([]func(int, int) Model{tiny, rooflined}).Draw(t, "time")
		m := of(rapid.IntRange(1, 3).Draw(t, "layers"), rapid.IntRange(1, 8).Draw(t, "experts"))
		s := settings(m, rapid.IntRange(2, 4).Draw(t, "hosts"))
		s.Distance = rapid.IntRange(1, m.Layers).Draw(t, "distance")
		s.Accuracy = []float64{rapid.Float64Range(0, 1).Draw(t, "accuracy")}
		s.KeepAlive = rapid.Float64Range(0, 30).Draw(t, "keep-alive")
		w, rows := drawWorkload(t, m)
		oracle, err := Run(w, s, policy("oracle"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range Policies() {
			r, err := Run(w, s, p)
			if err != nil {
				t.Fatal(err)
			}
			if r.Rows != rows || len(r.Layers) != len(w.Iterations)*m.Layers {
				t.Fatalf("%s: %d rows of %d", p.Name, r.Rows, rows)
			}
			if r.Mean() < oracle.Mean()-1e-12 || r.Cost < 0 || r.Cost > r.Resident+1e-9 {
				t.Fatalf("%s: %+v; the oracle: %+v", p.Name, r, oracle)
			}
			if most := float64(m.Layers*4*s.Hosts) * r.Elapsed; r.Resident > most+1e-9 {
				t.Fatalf("%s: %v GB·s of %v that there are", p.Name, r.Resident, most)
			}
			if again, err := Run(w, s, p); err != nil || !reflect.DeepEqual(r, again) {
				t.Fatalf("%s: %+v, then %+v, %v", p.Name, r, again, err)
			}
		}
	})
}

func drawWorkload(t *rapid.T, m Model) (*Workload, int) {
	its := make([]Iteration, rapid.IntRange(0, 6).Draw(t, "iterations"))
	for i := range its {
		its[i].Due = 7 * float64(i)
	}
	w, err := NewWorkload(m.Shape, its)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i := range w.loads {
		w.loads[i] = rapid.Uint32Range(0, 30).Draw(t, "load")
		rows += int(w.loads[i])
	}
	return w, rows
}

// An expert that no host has gets the place of a replica that its rows do not need,
// also where every replica is wanted.
func TestWakeOnFullHosts(t *testing.T) {
	m := tiny(1, 3)
	for _, tc := range []struct {
		name     string
		unwanted int
		loads    []uint32
		left     replica // the one that makes room
	}{
		{"one of two", -1, []uint32{1, 1, 1}, replica{expert: 0, host: 0}},
		{"one that is not wanted", 1, []uint32{1, 1, 1}, replica{expert: 0, host: 1}},
		{"the only one of an expert without rows", -1, []uint32{0, 1, 1}, replica{expert: 0, host: 0}},
	} {
		e := newEngine(&replayed{Workload: loads(t, m)}, settings(m, 2), Policy{})
		y := &e.layers[0]
		y.slots, y.replicas = 2, nil
		y.index()
		for _, r := range []replica{{expert: 0, host: 0}, {expert: 0, host: 1}, {expert: 1, host: 0}, {expert: 1, host: 1}} {
			r.wanted = len(y.replicas) != tc.unwanted
			y.insert(r)
		}
		y.fill(2)
		if err := e.wake(y, 2, tc.loads); err != nil || y.find(tc.left.expert, tc.left.host) >= 0 || !y.resident(2) || len(y.replicas) != 4 {
			t.Errorf("%s: %v, %+v", tc.name, err, y.replicas)
		}
	}
	e := newEngine(&replayed{Workload: loads(t, m)}, settings(m, 1), Policy{})
	y := &e.layers[0]
	y.slots, y.replicas = 2, y.replicas[:2]
	y.fill(1)
	if err := e.wake(y, 2, []uint32{1, 1, 1}); err == nil {
		t.Error("three experts with rows on a host that holds two")
	}
}
