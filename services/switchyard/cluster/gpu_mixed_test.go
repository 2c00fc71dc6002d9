package cluster_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Two hosts with CPUs and one with a GPU have one plan, and all compute rows. The GPU is
// lost in the middle of an answer: no token is lost, and the CPUs go on alone.
func TestMixedGPUFleet(t *testing.T) {
	s := settings(t)
	s.Node.Shared.Class = deployment.MixedClasses
	s.Count["expert"] = 2
	s.Services.Expert.Plans = plan.Settings{Policy: plan.Static, Grouping: plan.ByHost, Replicas: 3}
	y := ready(t, s)
	want := tokens(t, y, func(int) {})

	node, services := *y.Settings.Node, s.Services
	var err error
	if node.Shared.Telemetry, err = telemetry.Setup(t.Context(), telemetry.Config{ServiceName: "GPU"}); err != nil {
		t.Fatal(err)
	}
	gpu, config := gpuOf(t)
	services.Expert.GPU = config
	host := cluster.NewPipeline(&node, services, map[string]int{"expert": 1})
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Run(t.Context()) }()
	if err := host.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := rowsComputed(t, y.Settings.Node)
	testkit.Eventually(t, "rows on the GPU, and on CPUs", func() bool {
		if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
			t.Errorf("on both: %v, want %v", got, want)
		}
		return rowsComputed(t, &node) > 0 && rowsComputed(t, y.Settings.Node) > before
	})
	got := tokens(t, y, func(n int) {
		if n == 5 {
			gpu.Faults.Lose(kernels.CodeDeviceUnavailable)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("with a GPU that was lost: %v, want %v", got, want)
	}
	wantLost(t, y, ended)
	if err := errors.Join(host.Stop(context.Background()), node.Shared.Telemetry.Close()); err != nil {
		t.Error(err)
	}
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("on CPUs alone: %v, want %v", got, want)
	}
}

// rowsComputed is how many routed rows a process's hosts have computed.
func rowsComputed(t *testing.T, n *cluster.Node) (rows float64) {
	t.Helper()
	families, err := n.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "switchyard_expert_rows_total" {
			continue
		}
		for _, m := range f.Metric {
			rows += m.GetCounter().GetValue()
		}
	}
	return rows
}
