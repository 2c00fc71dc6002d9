package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testplan"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/policy/alone"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/registry"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// A policy that is a folder and a registration is everywhere: the scaler decides by it, plans
// can name it, the simulator and the arena compare it, and all help tells of it.
func TestRegistered(t *testing.T) {
	defer registry.Register(testplan.StackingPolicy())()
	if err := registry.Problems(); err != nil {
		t.Fatal(err)
	}
	const name = "side-by-side"
	t.Run("scaler", func(t *testing.T) { decidesLive(t, name+":replicas=2") })
	t.Run("plans", func(t *testing.T) { decidesAlone(t, name) })
	t.Run("simulator", func(t *testing.T) {
		if p := sim.Policies(); p[len(p)-1].Name != name {
			t.Errorf("the simulator has %v", registry.Names(registry.Simulated))
		}
	})
	t.Run("arena", func(t *testing.T) {
		dir := t.TempDir()
		csv := filepath.Join(dir, "trace.csv")
		if err := os.WriteFile(csv, []byte(fewRequests), 0o600); err != nil {
			t.Fatal(err)
		}
		got := invoke("", "arena", "--suite", "moeless", "--trace", csv, "--out", dir, "--shapes", "mixtral-8x7b", "--no-variants", "--seeds", "0", "--json", "--policies", "static,"+name+":replicas=2")
		if strings.Count(got.Out, "\n") != 2 || !strings.Contains(got.Out, `"policy":"`+name+`:replicas=2"`) {
			t.Errorf("%+v", got)
		}
	})
	for _, command := range []string{"policy scale", "policy place", "arena"} {
		if got := invoke("", append(strings.Fields(command), "--help")...); !strings.Contains(strings.Join(strings.Fields(got.Out), " "), name) {
			t.Errorf("%s --help does not have it: %s", command, got.Out)
		}
	}
	const layer = `{"layer": 0, "experts": [{"id": 0, "load": 45, "bytes": 1}], "settings": {"cv_threshold": 0.2, "memory_cap_bytes": 2}}`
	const state = `{"layer": 0, "experts": [{"id": 4, "replicas": 1, "load_each": 1, "bytes": 7}], "hosts": [{"id": "a", "capacity_bytes": 7}]}`
	for step, in := range map[string]string{"scale": layer, "place": state} {
		if got := invoke(in, "policy", step, "--name", name); got.Code != cli.ExitDone {
			t.Errorf("policy %s: %+v", step, got)
		}
	}
	if !strings.Contains(registry.Page(), "`"+name+"`") {
		t.Error("docs/policies.md would not have it")
	}
}

func testKnown() plan.Known {
	return plan.Known{
		Model:    plan.Model{MoELayers: []int{0}, Experts: 3, ExpertBytes: 10},
		Settings: plan.Settings{Policy: plan.Static, Grouping: plan.ByExpert, Replicas: 1}, InForce: map[int]*plan.Layer{},
		Hosts: []plan.Host{{ID: "host-a", Budget: 100}, {ID: "host-b", Budget: 100}},
	}
}

// decidesLive wants the scaler's flag to take a policy, and its core, on the simulator's
// clock, to follow it.
func decidesLive(t *testing.T, scaling string) {
	cfg, err := up.ScalingFlags{CV: 0.2, MemoryCap: "1GB", Horizon: time.Second}.Config(scaling, time.Minute, nil)
	if err != nil || cfg.Scaling != scaling {
		t.Fatal(err)
	}
	m, err := sim.Open("mixtral-8x7b")
	if err != nil {
		t.Fatal(err)
	}
	m.Layers = 1
	its := make([]sim.Iteration, 80)
	for i := range its {
		its[i] = sim.Iteration{Due: elastic.Cadence * float64(i), Rows: 4096}
	}
	w, err := sim.NewWorkload(m.Shape, its)
	if err != nil {
		t.Fatal(err)
	}
	for i := range its {
		for e := range w.Loads(i, 0) {
			w.Loads(i, 0)[e] = []uint32{4096, 512, 512, 512, 512, 512, 512, 1024}[e]
		}
	}
	of := elastic.DefaultSettings()
	of.Scaling, of.Worth = scaling, 0
	loop, err := sim.Loop(sim.Defaults(m), of)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := sim.Run(w, sim.Defaults(m), loop); err != nil || r.ColdStarts == 0 || r.Replicas() <= float64(m.Experts) {
		t.Errorf("%+v, %v: the scaler does not follow the policy", r, err)
	}
}

// decidesAlone wants the settings of plans to take a policy, and hosts to plan by it.
func decidesAlone(t *testing.T, name string) {
	k := testKnown()
	k.Settings.Policy = name
	d, err := alone.By(name)(k)
	if k.Settings.Check() != nil || err != nil || len(d.Layers) != 1 || !strings.HasPrefix(d.Layers[0].Reason, name) {
		t.Errorf("%v, %v, %v", k.Settings.Check(), d, err)
	}
}

// What is no policy, or no setting of one, is refused with what is nearest, before anything
// is dialled.
func TestUnknownPolicies(t *testing.T) {
	for _, tc := range testkit.Some([]struct {
		args []string
		want string
	}{
		{[]string{"policy", "scale", "--name", "elpb"}, "nearest is eplb;"},
		{[]string{"arena", "--suite", "moeless", "--back-end", "live", "--trace", "x", "--out", t.TempDir(), "--policies", "static,moles"}, `--policies: there is no policy "moles"; nearest is moeless;`},
	}) {
		if got := invoke("", tc.args...); got.Code != cli.ExitUsage || !strings.Contains(got.Err, tc.want) {
			t.Errorf("%v: %+v, want %q", tc.args, got, tc.want)
		}
	}
}
