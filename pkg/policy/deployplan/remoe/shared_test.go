package remoe

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

const sharedMB = 1 << 20

// sharedSystem has 3 layers of 8 experts, of which a function holds 4 at most.
func sharedSystem() *serverless.System {
	s := &serverless.System{
		Model: serverless.Model{Layers: 3, Experts: 8, TopK: 2, Expert: 2 * sharedMB, Fixed: 10 * sharedMB, Token: 512, Cache: 4096},
		Functions: cost.Platform{
			PerCPU: cost.GB, CPU: cost.Roofline{Bandwidth: 12e9, Rate: 40e9, ElementBytes: 2}, Threads: 1,
			Container: 0.5, Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 0.0005, Payload: 6 * sharedMB, Prices: cost.Prices{Memory: 16.67e-6},
		},
		GPU: cost.Roofline{Bandwidth: 1.8e12, Rate: 200e12, ElementBytes: 2}, GPULayer: 1e-4, GPUPrice: 50e-6,
		Switch: cost.Link{Latency: 1e-5, Bandwidth: 25e9}, Network: 1.25e9, Replicas: 3,
	}
	for m := 4.; m <= 60; m += 2 {
		if m <= 10 {
			s.Functions.Sizes = append(s.Functions.Sizes, m*sharedMB)
		}
		s.Main = append(s.Main, m*sharedMB)
	}
	return s
}

func settings() SharedSettings {
	return SharedSettings{
		System: sharedSystem(), Plan: Settings{Step: 1. / 8}, SLO: serverless.SLO{TTFT: 60, TPOT: 5}, Most: 60, Output: 30, Decided: 0.05, Window: 4, Worth: 0.02,
	}
}

func newPlanner(t interface{ Fatal(...any) }, s SharedSettings) *Shared {
	p, err := NewShared(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// towards has most rows with one expert of each layer.
func towards(s *serverless.System, expert int, share float32) (a []float32) {
	for range s.Layers {
		for e := range s.Experts {
			v := (1 - share) / float32(s.Experts-1)
			if e == expert {
				v = share
			}
			a = append(a, v)
		}
	}
	return a
}

func decide(t interface{ Fatal(...any) }, p *Shared) SharedVerdict {
	v, err := p.Decide()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The plan follows the last requests where that pays, and stays where it does not.
func TestFollows(t *testing.T) {
	s := settings()
	p := newPlanner(t, s)
	first := decide(t, p)
	if !first.Changed || first.Plan.Layers[0].Size() != p.Main.Away || first.Plan.Main != p.Main.Memory {
		t.Fatalf("%+v with %+v", first, p.Main)
	}
	if again := decide(t, p); again.Changed || again.Plan != first.Plan {
		t.Errorf("it changes without requests: %+v", again)
	}
	if p.Main.Away == 0 || p.Main.Away == s.System.Experts {
		t.Fatalf("%d of the experts leave; the test needs some", p.Main.Away)
	}
	for range 4 {
		if err := p.Admit(SharedRequest{Prompt: 60, Output: 30, Activation: towards(s.System, 0, 0.45)}); err != nil {
			t.Fatal(err)
		}
	}
	v := decide(t, p)
	if !v.Changed || v.Plan.Layers[1].Remote[0] || !strings.Contains(v.Reason, "the last 4 requests") {
		t.Fatalf("expert 0 has most rows, and %+v", v)
	}
	for range 4 { // a little less of the same
		if err := p.Admit(SharedRequest{Prompt: 60, Output: 30, Activation: towards(s.System, 0, 0.44)}); err != nil {
			t.Fatal(err)
		}
	}
	if v := decide(t, p); v.Changed {
		t.Errorf("it changes for nothing: %s", v.Reason)
	}
}

// With a plan for each request the plan is the one of the last request alone, as if it had been
// planned for by itself.
func TestEach(t *testing.T) {
	s := settings()
	s.Each, s.Window, s.SLO.TPOT = true, 1, 0.025
	p := newPlanner(t, s)
	for _, r := range []SharedRequest{
		{Prompt: 60, Output: 30, Activation: towards(s.System, 0, 0.45)}, {Prompt: 5, Output: 2, Activation: towards(s.System, 1, 0.9)}, {Prompt: 60, Output: 30, Activation: towards(s.System, 0, 0.45)},
	} {
		if err := p.Admit(r); err != nil {
			t.Fatal(err)
		}
		v := decide(t, p)
		alone, err := Decide(s.System, Request{Most: r.Prompt, Prompt: r.Prompt, Output: r.Output, SLO: s.SLO, Decided: s.Decided}, r.Activation, s.Plan)
		if err != nil {
			t.Fatal(err)
		}
		if !same(v.Plan, &alone.Plan) {
			t.Errorf("%+v, by itself %+v", v.Plan, alone.Plan)
		}
	}
	_ = p.Admit(SharedRequest{Prompt: 30, Output: 20, Activation: towards(s.System, 2, 0.6)})
	for _, tpot := range []float64{1e-6, 5} { // what was refused is not tried again
		p.SLO.TPOT = tpot
		if v, err := p.Decide(); !errors.Is(err, ErrInfeasible) || v.Plan == nil || v.Changed {
			t.Errorf("%+v: %v", v, err)
		}
	}
	_ = p.Admit(SharedRequest{Prompt: 30, Output: 20, Activation: towards(s.System, 2, 0.6)})
	decide(t, p)
	before := p.plan
	p = newPlanner(t, s)
	p.Adopt(before)
	if v := decide(t, p); v.Changed {
		t.Errorf("the plan in force goes without a request: %s", v.Reason)
	}
	if s.Window = 2; s.Check() == nil {
		t.Error("a request's own plan is for two")
	}
}

// Replicas follow the last requests where a change of the rest does not pay.
func TestReplicasAlone(t *testing.T) {
	s := settings()
	s.Worth = 0
	p := newPlanner(t, s)
	r := SharedRequest{Prompt: 60, Output: 30, Activation: towards(s.System, 0, 0.2)}
	if err := p.Admit(r); err != nil {
		t.Fatal(err)
	}
	before := decide(t, p).Plan
	more := &serverless.Plan{Main: before.Main, Layers: slices.Clone(before.Layers)}
	for l := range more.Layers {
		more.Layers[l].Replicas = before.Layers[l].Replicas%s.System.Replicas + 1
	}
	p.Adopt(more)
	if got := p.Rescaled(); got == nil || !same(got, before) {
		t.Errorf("%+v, want %+v", got, before)
	}
	p.Adopt(before)
	if got := p.Rescaled(); got != nil {
		t.Errorf("replicas change for nothing: %+v", got)
	}
}

func TestRefuses(t *testing.T) {
	s := settings()
	s.SLO.TPOT = 1e-6
	_, err := NewShared(s)
	var refused *Infeasible
	if !errors.As(err, &refused) || refused.Limit != "10c" || refused.TPOT == 0 {
		t.Fatalf("%v", err)
	}
	s.BestEffort = true
	p := newPlanner(t, s)
	if v := decide(t, p); p.Main.Away != 0 || v.Plan.Layers[0].Size() != 0 || !strings.Contains(v.Reason, "best effort, as constraint 10c") {
		t.Errorf("%+v", v)
	}
	s.System.Main = s.System.Main[:1]
	if _, err := NewShared(s); !errors.Is(err, ErrInfeasible) {
		t.Errorf("a model that fits nowhere: %v", err)
	}
	for _, tc := range []struct {
		what   string
		change func(*SharedSettings)
	}{
		{"last 0 requests", func(s *SharedSettings) { s.Window = 0 }}, {"has to save 1", func(s *SharedSettings) { s.Worth = 1 }},
		{"has 1 tokens, of at most 0", func(s *SharedSettings) { s.Most = 0 }}, {"the SLO is 0", func(s *SharedSettings) { s.SLO.TTFT = 0 }},
		{"0 replicas", func(s *SharedSettings) { s.System.Replicas = 0 }},
	} {
		bad := settings()
		tc.change(&bad)
		if _, err := NewShared(bad); err == nil || !strings.Contains(err.Error(), tc.what) {
			t.Errorf("%s: %v", tc.what, err)
		}
	}
	if err := newPlanner(t, settings()).Admit(SharedRequest{Activation: []float32{1}}); err == nil {
		t.Error("an activation of another model is taken")
	}
}

func known(hosts ...string) plan.Known {
	k := plan.Known{Model: plan.Model{MoELayers: []int{1, 2, 4}, Experts: 8}, InForce: map[int]*plan.Layer{}}
	for _, h := range hosts {
		k.Hosts = append(k.Hosts, plan.Host{ID: h})
	}
	return k
}

// force puts layers in force.
func force(t interface{ Fatal(...any) }, s *serverless.System, p *serverless.Plan, k plan.Known) plan.Known {
	in := map[int]*plan.Layer{}
	for _, lp := range SharedLayers(s, p, k, "a test") {
		l, err := plan.Rules{MoELayers: k.Model.MoELayers, Experts: s.Experts}.Check(lp)
		if err != nil {
			t.Fatal(err)
		}
		in[int(lp.Layer)] = l
	}
	k.InForce = in
	return k
}

// sharedDrawn is any plan that can be.
func sharedDrawn(t *rapid.T, s *serverless.System) *serverless.Plan {
	p := &serverless.Plan{Main: rapid.SampledFrom(s.Main).Draw(t, "main")}
	for range s.Layers {
		p.Layers = append(p.Layers, serverless.Layer{
			Remote: rapid.SliceOfN(rapid.Bool(), s.Experts, s.Experts).Draw(t, "remote"),
			Memory: rapid.SampledFrom(s.Sizes()).Draw(t, "memory"), Replicas: rapid.IntRange(1, s.Replicas).Draw(t, "replicas"),
		})
	}
	return p
}

// Hosts' plans of any plan are legal, and are read as the plan that they were made of, as far as
// there are hosts for its replicas; functions stay where they are while their hosts are here.
func TestLayers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sharedSystem()
		names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 5, rapid.ID).Draw(t, "hosts")
		p := sharedDrawn(t, s)
		k := force(t, s, p, known(names...))
		got := SharedPlanOf(s, k)
		if got == nil {
			t.Fatal("it is not read")
		}
		some := false
		for i := range p.Layers {
			is, was := got.Layers[i], p.Layers[i]
			some = some || was.Size() < s.Experts
			if !slices.Equal(is.Remote, was.Remote) || was.Size() > 0 && (is.Memory != was.Memory || is.Replicas != min(was.Replicas, max(1, len(names)-1))) {
				t.Fatalf("layer %d: %+v, was %+v", i, is, was)
			}
		}
		if some && got.Main != p.Main {
			t.Fatalf("the host beside attention has %v, had %v", got.Main, p.Main)
		}
		more := k
		more.Hosts = append(slices.Clone(k.Hosts), plan.Host{ID: "0"})
		for i, lp := range SharedLayers(s, p, more, "") {
			in := k.InForce[k.Model.MoELayers[i]]
			for _, f := range lp.Functions {
				for _, place := range in.Function(f.Id).GetPlacements() {
					if len(names) > 1 && plan.WantOn(f, place.Host) == 0 {
						t.Fatalf("function %s leaves %s for nothing", f.Id, place.Host)
					}
				}
			}
		}
	})
}

// A plan of another policy, or of other sizes, is no plan of this one.
func TestPlanOf(t *testing.T) {
	s := sharedSystem()
	p := newPlanner(t, settings())
	k := force(t, s, decide(t, p).Plan, known("a", "b"))
	if SharedPlanOf(s, k) == nil {
		t.Fatal("its own plan is not read")
	}
	other := sharedSystem()
	other.Functions.Sizes, other.Main = []float64{3 * sharedMB}, []float64{3 * sharedMB}
	if SharedPlanOf(other, k) != nil {
		t.Error("a plan of other sizes is read")
	}
	k.InForce[2].Policy = "moeless"
	if SharedPlanOf(s, k) != nil || SharedPlanOf(s, known("a")) != nil {
		t.Error("a plan of another policy is read")
	}
}
