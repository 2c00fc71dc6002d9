package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster/clustertest"
	"github.com/switchyard/switchyard/services/switchyard/plans"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// quickLambda is a file of the platform lambda whose functions start and move bytes a hundred times as fast.
func quickLambda(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../pkg/compute/device/paced/profiles/platforms/lambda.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, change := range [][2]string{{"0.025", "0.00025"}, {"75.0e+6", "7.5e+9"}, {"0.010", "0.0001"}, {"50.0e+6", "5.0e+9"}, {"20.0e+9", "2.0e+12"}} {
		text = strings.ReplaceAll(text, "value: "+change[0], "value: "+change[1])
	}
	path := filepath.Join(t.TempDir(), "quick.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mixed is a plan of the demo model with another mode in each layer, and memory and replicas by expert.
func mixed() *scatter.Plan {
	p := &scatter.Plan{}
	for l := range demoLayers {
		one := scatter.Layer{Mode: scatter.Modes[l%3], Beta: 2}
		for e := range 16 {
			one.Experts = append(one.Experts, scatter.Function{Memory: float64((128 + 640*(e%2)) << 20), Replicas: 1 + e%2})
		}
		p.Layers = append(p.Layers, one)
	}
	return p
}

// equalRows are as many rows for each of its experts.
func equalRows() (loads [][]float64) {
	for range demoLayers {
		loads = append(loads, slices.Repeat([]float64{1280}, 16))
	}
	return loads
}

// A batch's plan with several modes, and with memory and replicas of each expert, runs: hosts bill invocations
// in each mode beside what the model says, tokens stay, no object is left, and settings that change plan again.
func TestPlanDeployed(t *testing.T) {
	t.Parallel()
	y := startUp(t, func(c *up.Cmd) {
		c.Listen, c.Policy, c.Platform, c.Hosts, c.Scaling = "127.0.0.1:0", plan.ForBatches, quickLambda(t), 2, up.AutoScaling
	})
	p := newPlanned(t, y.URL())
	p.awaitHosts()
	prompt := func() string {
		t.Helper()
		got := invoke("", "--nats", y.URL(), "prompt", "--max-tokens", "3", "Once upon a time, there was a little girl")
		if got.Code != cli.ExitDone {
			t.Fatalf("%+v", got)
		}
		return got.Out
	}
	want := prompt()
	m := y.Settings.Node.Shared.Model
	id, err := deployment.ModelIdentity(m)
	if err != nil {
		t.Fatal(err)
	}
	of := deployed{m.Name, id.Model, deployment.MoELayers(m), m.Spec.Experts}
	c := &PlanSolveCmd{ConnectFlags: cli.ConnectFlags{ConnectTimeout: testkit.Patience}}
	e := quietEnv()
	e.NATS, e.Waits = y.URL(), patient
	if err := c.deploy(t.Context(), e, deployed{of.name, 1, of.layers, of.experts}, mixed(), equalRows()); err == nil || !strings.Contains(err.Error(), "another model than the table's") {
		t.Errorf("another model: %v", err)
	}
	many := mixed()
	many.Layers[1].Experts[3].Replicas = 3
	if err := c.deploy(t.Context(), e, of, many, equalRows()); err == nil || !strings.Contains(err.Error(), "expert 3 of layer 1 has 3 replicas, and there are 2 expert hosts, each of which can have one: start 1 more") {
		t.Errorf("too many replicas: %v", err)
	}
	if err := c.deploy(t.Context(), e, of, mixed(), equalRows()); err != nil {
		t.Fatal(err)
	}
	p.await("a function an expert", func(f plans.Function) bool {
		odd := f.Experts[0] % 2
		return len(f.Experts) == 1 && f.Memory == uint64(128+640*odd)<<20 && len(f.Hosts) == 1+int(odd)
	})
	p.until("invocations are billed in each mode", func() bool {
		if got := prompt(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, m := range scatter.Modes {
			if invocations(t, y, "switchyard_invocations_total", m.String(), "") == 0 {
				return false
			}
		}
		return true
	})
	if rows, off := invocations(t, y, "switchyard_foretold_compared_rows_total", "", ""), invocations(t, y, "switchyard_foretold_error_ratio", "", ""); rows <= 0 || off <= 0 || off > 2 {
		t.Errorf("of %v rows the error is %v", rows, off)
	}
	for _, m := range scatter.Modes {
		live, says := invocations(t, y, "switchyard_invocation_gb_seconds_total", m.String(), "billed"), invocations(t, y, "switchyard_invocation_gb_seconds_total", m.String(), "model")
		if live <= 0 || says <= 0 {
			t.Errorf("%s: billed %v GB·s, the model says %v", m, live, says)
		}
	}
	p.plan("set", "--transfer", "direct") // it does not wait for long
	p.await("settings are followed", func(f plans.Function) bool { return f.Memory == 0 && f.Transfer == "direct" })
	if got := prompt(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	conn, stream := y.Conn(t), y.Settings.Node.Names().Objects().Name
	p.until("no object is left", func() bool {
		state, err := conn.State(t.Context(), stream)
		return err == nil && state.Messages == 0
	})
}

// invocations is a counter or a gauge of this process.
func invocations(t *testing.T, y clustertest.Cluster, name, mode, of string) float64 {
	t.Helper()
	all, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if f.GetName() == name && labels["mode"] == mode && labels["of"] == of {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no %s of %s", name, mode)
	return 0
}
