package cluster_test

import (
	"context"
	"slices"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// gateOn is a fake GPU as a gate opens it.
func gateOn(t *testing.T) (*fake.Device, gate.Config) {
	t.Helper()
	on := fake.New(fake.Settings{Kernels: fake.Gates()})
	t.Cleanup(func() { _ = on.Close() }) // says only that it is closed
	return on, gate.Config{GPU: &gpus.GPU{
		Info: on.Info(), Backend: cudabackend.Backend{Driver: func() (kernels.Driver, error) { return on, nil }, Images: kernels.Images{"experts.sm_90a.cubin": {1}}},
	}}
}

// A gate whose GPU refuses launches, and then is lost in the middle of a request, costs no
// token: one on a CPU, whose bits are the same, routes the rows. The one that has lost its
// GPU ends with an error.
func TestGateLosesGPU(t *testing.T) {
	s := settings(t)
	y := ready(t, s)
	want := tokens(t, y, func(int) {})

	gpu, config := gateOn(t)
	services := s.Services
	services.Gate = config
	replica := cluster.NewPipeline(y.Settings.Node, services, map[string]int{"gate": 1})
	if err := replica.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(t.Context()) }()
	if err := replica.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	gpu.Faults.Refuse("route", kernels.CodeLaunchOutOfMemory, 1)
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("with launches that were refused: %v, want %v", got, want)
	}
	got := tokens(t, y, func(n int) {
		if n == 5 {
			gpu.Faults.Break("route", kernels.CodeECC)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("with a GPU that was lost: %v, want %v", got, want)
	}
	wantLost(t, y, ended)
	if err := replica.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("without it: %v, want %v", got, want)
	}
}

// A GPU with too little memory keeps a gate from starting, and says how much there is and
// how much it takes.
func TestGateGPUWithoutRoom(t *testing.T) {
	s := settings(t)
	gpu, config := gateOn(t)
	s.Services.Gate = config
	gpu.Faults.Take(gpu.Info().Memory)
	if short := wantNoRoom(t, s); short.Free != 0 || short.Need == 0 {
		t.Errorf("%v", &short)
	}
}
