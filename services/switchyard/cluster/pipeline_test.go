package cluster_test

import (
	"context"
	"errors"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// A pipeline that fails at its start gives back what it has made, whichever step fails: here
// a host's GPU, which it has from when it is made.
func TestPipelineFailsToStart(t *testing.T) {
	y := ready(t, settings(t))
	boom := errors.New("no second GPU")
	for _, tt := range []struct {
		name  string
		count map[string]int
		plans plan.Settings
		again error // what opening the GPU ends with the second time
		ends  bool  // the context, when the GPU is open
	}{
		{name: "the next one is not made", count: map[string]int{"expert": 2}, again: boom},
		{name: "the next one is not connected", count: map[string]int{"expert": 1, "gate": 1}, ends: true},
		{name: "its plan is not prepared", count: map[string]int{"expert": 1}, plans: plan.Settings{Replicas: 1}, ends: true},
		{name: "it is not started", count: map[string]int{"expert": 1}, ends: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			on, gpu := gpuOf(t)
			opened := 0
			backend, _ := gpu.Backend.(cudabackend.Backend)
			backend.Driver = func() (kernels.Driver, error) {
				if opened++; opened > 1 {
					return nil, tt.again
				}
				if tt.ends {
					cancel()
				}
				return on, nil
			}
			gpu.Backend = backend
			services := y.Settings.Services
			services.Expert.GPU, services.Expert.Plans = gpu, tt.plans
			p := cluster.NewPipeline(y.Settings.Node, services, tt.count)
			if err := p.Start(ctx); err == nil || tt.again != nil && !errors.Is(err, tt.again) {
				t.Errorf("it started: %v", err)
			}
			if opened == 0 || isEmpty(on) {
				t.Errorf("the GPU was opened %d times, and holds nothing", opened)
			}
			for range 2 {
				if err := p.Stop(context.WithoutCancel(ctx)); err != nil {
					t.Error(err)
				}
			}
			if !isEmpty(on) {
				t.Error("the GPU is not given back")
			}
		})
	}
}

func isEmpty(gpu *fake.Device) bool {
	bytes, pinned, streams := gpu.Left()
	return bytes+pinned == 0 && streams == 0
}
