package cluster_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// attentionOn is a fake GPU as an attention replica opens it.
func attentionOn(t *testing.T) (*fake.Device, *attention.GPU) {
	t.Helper()
	on := fake.New(fake.Settings{Kernels: fake.Backbone()})
	t.Cleanup(func() { _ = on.Close() }) // says only that it is closed
	return on, &attention.GPU{
		Info: on.Info(), Open: func() (kernels.Driver, error) { return on, nil }, Memory: 60 << 20, Parts: 2,
		Images: kernels.Images{"experts.sm_90a.cubin": {1}},
	}
}

// A GPU of attention that refuses launches, and then is lost in the middle of a request,
// costs no token: another replica goes on. The one whose GPU it was ends with an error.
func TestAttentionLosesGPU(t *testing.T) {
	s := settings(t)
	s.Services.Attention.KVBytes = 0
	_, s.Services.Attention.GPU = attentionOn(t)
	y := ready(t, s)
	want := tokens(t, y, func(int) {})

	gpu, config := attentionOn(t)
	services := s.Services
	services.Attention.GPU = config
	replica := cluster.NewPipeline(y.Settings.Node, services, map[string]int{"attention": 1})
	if err := replica.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- replica.Run(t.Context()) }()
	if err := replica.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	const kernel = "kv_store_p2"
	gpu.Faults.Refuse(kernel, kernels.CodeLaunchOutOfMemory, 3)
	ask := func() []uint32 {
		return tokens(t, y, func(n int) {
			if n == 5 {
				gpu.Faults.Break(kernel, kernels.CodeECC)
			}
		})
	}
	var err error
	for range 100 {
		if got := ask(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		select {
		case err = <-ended:
		default:
			continue
		}
		break
	}
	var device *attention.DeviceError
	if !errors.As(err, &device) || !errors.Is(err, kernels.ErrLost) {
		t.Errorf("the replica ended with %v", err)
	}
	if err := replica.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("without it: %v, want %v", got, want)
	}
}

// A GPU with too little memory for attention keeps it from starting, and says how much
// there is and how much it takes.
func TestAttentionGPUWithoutRoom(t *testing.T) {
	s := settings(t)
	gpu, config := attentionOn(t)
	s.Services.Attention.KVBytes, s.Services.Attention.GPU = 0, config
	gpu.Faults.Take(32 << 20)
	y, err := cluster.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(y.Ready(t.Context()), y.Close())
	var device *attention.DeviceError
	var short *kernels.MemoryError
	if !errors.As(err, &device) || !errors.As(err, &short) || short.Need != 60<<20 || short.Free != 32<<20 {
		t.Errorf("%v", err)
	}
}
