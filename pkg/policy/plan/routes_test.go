package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// system is a layer's functions on hosts that load, die and come, and a gate.
type system struct {
	plan   *Layer
	routes *Routes
	warm   map[string]map[string]bool // by function and host
}

func (s *system) replicas(f string) (r Replicas) {
	for h := range s.warm[f] {
		r.Serving = append(r.Serving, h)
	}
	slices.Sort(r.Serving)
	return r
}

// drawPlan is a legal plan; some experts are in several functions, and some
// functions are wanted nowhere.
func drawPlan(t *rapid.T, version uint64) *pb.LayerPlan {
	lp := legal()
	lp.Version = version
	seen := map[string]bool{}
	add := func(experts []uint32) {
		on := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "on")
		slices.Sort(experts)
		if f := fn(on, experts...); !seen[f.Id] {
			seen[f.Id] = true
			lp.Functions = append(lp.Functions, f)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		add(rapid.SliceOfNDistinct(rapid.Uint32Range(0, 2), 1, 3, rapid.ID).Draw(t, "experts"))
	}
	split := rapid.IntRange(0, 2).Draw(t, "split")
	all := []uint32{0, 1, 2}
	add(slices.Clone(all[:split+1]))
	if split < 2 {
		add(slices.Clone(all[split+1:]))
	}
	return lp
}

// Whatever plans come and hosts die, an expert that some warm function of the plan
// or in use has is with a warm one, unless it is cold on purpose; else it is with a
// function of the plan. A gate
// that acknowledges a plan uses no function outside of it.
func TestNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &system{warm: map[string]map[string]bool{}}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			s.change(t, step)
			before := s.routes
			s.routes = s.plan.Next(before, s.replicas)
			s.check(t, before)
		}
	})
}

func (s *system) change(t *rapid.T, step int) {
	host := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "host")
	switch what := rapid.SampledFrom([]string{"plan", "warm", "die"}).Draw(t, "what"); {
	case s.plan == nil || what == "plan":
		l, err := testRules.Check(drawPlan(t, uint64(step+1)))
		if err != nil {
			t.Fatal(err)
		}
		s.plan = l
	case what == "warm":
		f := rapid.SampledFrom(s.plan.Functions).Draw(t, "function")
		if WantOn(f, host) != 0 {
			if s.warm[f.Id] == nil {
				s.warm[f.Id] = map[string]bool{}
			}
			s.warm[f.Id][host] = true
		}
	default:
		for _, on := range s.warm {
			delete(on, host)
		}
	}
}

func (s *system) check(t *rapid.T, before *Routes) {
	outside := false
	for e := range int32(3) {
		to := s.routes.Targets[s.routes.Of(e)]
		if !slices.Contains(to.Experts, uint32(e)) {
			t.Fatalf("expert %d goes to %v", e, to.Experts)
		}
		outside = outside || s.plan.Function(to.Id) == nil
		if len(to.Hosts) > 0 {
			continue
		}
		if s.plan.Function(to.Id) == nil {
			t.Fatalf("expert %d is with a dead function outside the plan", e)
		}
		if s.asleep(e) {
			continue
		}
		candidates := slices.Clone(s.plan.Functions)
		if before != nil {
			for _, b := range before.Targets {
				candidates = append(candidates, b.Function)
			}
		}
		for _, f := range candidates {
			if slices.Contains(f.Experts, uint32(e)) && len(s.replicas(f.Id).Serving) > 0 {
				t.Fatalf("expert %d is cold, and warm in %v", e, f)
			}
		}
	}
	if !outside && s.routes.Version != s.plan.Version || outside && before != nil && s.routes.Version > before.Version {
		t.Fatalf("version %d of plan %d, outside %v", s.routes.Version, s.plan.Version, outside)
	}
}

// asleep reports whether the plan wants an expert warm nowhere.
func (s *system) asleep(e int32) bool {
	for _, f := range s.plan.Functions {
		if slices.Contains(f.Experts, uint32(e)) && !isCold(f) {
			return false
		}
	}
	return true
}

// What is wanted cold leaves a warm function of another grouping, when its group
// keeps rows and not before, so that hosts can drop that one.
func TestScaleToZeroElsewhere(t *testing.T) {
	cold := func(experts ...uint32) *pb.Function {
		f := fn([]string{"b"}, experts...)
		f.Placements[0].Want = pb.Want_WANT_COLD
		return f
	}
	old, joined := fn([]string{"a"}, 0, 1, 2), map[string]bool{}
	replicas := func(f string) Replicas {
		if f == old.Id {
			return Replicas{Serving: []string{"a"}, Joined: true}
		}
		return Replicas{Joined: joined[f]}
	}
	var routes *Routes
	advance := func(version uint64, fs ...*pb.Function) (text string) {
		l, err := testRules.Check(with(func(l *pb.LayerPlan) { l.Version = version }, fs...))
		if err != nil {
			t.Fatal(err)
		}
		routes = l.Next(routes, replicas)
		for e := range int32(3) {
			text += fmt.Sprint(routes.Targets[routes.Of(e)].Experts)
		}
		return text + fmt.Sprint(routes.Version)
	}
	coming := fn([]string{"b"}, 1, 2)
	check := func(want string, version uint64, fs ...*pb.Function) {
		t.Helper()
		if got := advance(version, fs...); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	check("[0 1 2][0 1 2][0 1 2]1", 1, old)
	check("[0 1 2][0 1 2][0 1 2]1", 2, cold(0), cold(1, 2))
	joined[cold(0).Id] = true
	check("[0][0 1 2][0 1 2]1", 2, cold(0), cold(1, 2))
	check("[0][0 1 2][0 1 2]1", 3, cold(0), coming)
	check("[0][0 1 2][0 1 2]1", 4, cold(0), cold(1), coming)
	joined[cold(1, 2).Id] = true
	check("[0][1 2][1 2]5", 5, cold(0), cold(1, 2))
}

// A lone slow host delays its own functions and nothing else.
func TestFunctionByFunction(t *testing.T) {
	next := func(old *Routes, lp *pb.LayerPlan, warm ...string) *Routes {
		l, err := testRules.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		return l.Next(old, func(f string) Replicas {
			if slices.Contains(warm, f) {
				return Replicas{Serving: []string{"a"}}
			}
			return Replicas{}
		})
	}
	one, each := legal(fn([]string{"a"}, 0, 1, 2)), legal(fn([]string{"a"}, 0), fn([]string{"b"}, 1), fn([]string{"a"}, 2))
	each.Version++
	r := next(nil, one, one.Functions[0].Id)
	r = next(r, each, one.Functions[0].Id, each.Functions[0].Id, each.Functions[2].Id)
	got := ""
	for e := range int32(3) {
		got += fmt.Sprint(r.Targets[r.Of(e)].Experts)
	}
	if got != "[0][0 1 2][2]" || r.Version != one.Version || r.Missing() != nil {
		t.Errorf("%s, version %d", got, r.Version)
	}
}

// A united expert is a target while it is warm somewhere, and never an expert's own function.
func TestUnitedRoutes(t *testing.T) {
	all, united := fn([]string{"a"}, 0, 1, 2), UnitedFunction(1, Bundle{2, 7}, []uint32{0, 1}, "b")
	l, err := testRules.Check(legal(all, united))
	if err != nil {
		t.Fatal(err)
	}
	serving := map[string][]string{all.Id: {"a"}}
	replicas := func(f string) Replicas { return Replicas{Serving: serving[f]} }
	cold := l.Next(nil, replicas)
	if _, ok := cold.United(Bundle{2, 7}, 1); ok || len(cold.Targets) != 1 {
		t.Errorf("nobody has it warm: %v", cold.Targets)
	}
	serving[united.Id] = []string{"b"}
	warm := l.Next(cold, replicas)
	to, ok := warm.United(Bundle{2, 7}, 1)
	if !ok || warm.Targets[to].Id != united.Id || warm.Targets[to].Hosts[0] != "b" {
		t.Errorf("it is warm: %v", warm.Targets)
	}
	for _, other := range []Bundle{{4, 7}, {2, 8}} {
		if _, ok := warm.United(other, 0); ok {
			t.Errorf("%+v is another one", other)
		}
	}
	if routed := l.Routed(); routed.HasUnited() || len(routed.Functions) != 1 || routed.Version != l.Version || len(l.Functions) != 2 || !Same(With(routed.LayerPlan, []*pb.Function{united}), l.LayerPlan) {
		t.Errorf("without united ones it is %v", routed)
	}
	serving[all.Id] = nil // its host is gone
	for e := range int32(3) {
		if r := l.Next(warm, replicas); r.Targets[r.Of(e)].Id != all.Id || r.Missing() == nil {
			t.Errorf("expert %d is with %v", e, r.Targets[r.Of(e)])
		}
	}
}
