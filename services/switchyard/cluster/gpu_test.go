package cluster_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/cuda/fake"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/gpus/cudabackend"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// gpuOf is a fake GPU as a replica opens it.
func gpuOf(t *testing.T) (*fake.Device, *gpus.GPU) {
	t.Helper()
	on := fake.New(fake.Settings{Kernels: fake.Backbone()})
	t.Cleanup(func() { _ = on.Close() }) // says only that it is closed
	return on, &gpus.GPU{
		Info: on.Info(), Memory: 60 << 20,
		Backend: cudabackend.Backend{Driver: func() (kernels.Driver, error) { return on, nil }, Images: kernels.Images{"experts.sm_90a.cubin": {1}}},
	}
}

// A host whose GPU refuses launches, and then is lost in the middle of a request,
// costs no token: another one computes the rows. The host ends with an error.
func TestLostGPU(t *testing.T) {
	s := settings(t)
	_, s.Services.Expert.GPU = gpuOf(t)
	y := ready(t, s)
	want := tokens(t, y, func(int) {})

	gpu, config := gpuOf(t)
	services := s.Services
	services.Expert.GPU = config
	host := cluster.NewPipeline(y.Settings.Node, services, map[string]int{"expert": 1})
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Run(t.Context()) }()
	if err := host.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	const kernel = "rows_split_p2"
	gpu.Faults.Refuse(kernel, kernels.CodeLaunchOutOfMemory, 3)
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("with launches that were refused: %v, want %v", got, want)
	}
	got := tokens(t, y, func(n int) {
		if n == 5 {
			gpu.Faults.Break(kernel, kernels.CodeECC)
		}
	})
	if !slices.Equal(got, want) {
		t.Errorf("with a GPU that was lost: %v, want %v", got, want)
	}
	wantLost(t, y, ended)
	if err := host.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if got := tokens(t, y, func(int) {}); !slices.Equal(got, want) {
		t.Errorf("without it: %v, want %v", got, want)
	}
}

// A replica whose GPU says that it has fallen off the bus ends, whatever its driver says
// and whether or not it has work, and others go on. Until then it tells everybody what
// the GPU says.
func TestGPUFallsOffBus(t *testing.T) {
	s := settings(t)
	s.Node.Shared.Class = deployment.MixedClasses
	y, err := cluster.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"expert", "gate", "attention"} {
		t.Run(service, func(t *testing.T) {
			services, said := s.Services, fake.NewFacts()
			said.Set(kernels.Power, 350)
			_, gpu := gpuOf(t)
			switch service {
			case "expert":
				services.Expert.GPU = gpu
			case "gate":
				_, services.Gate = gateOn(t)
				gpu = services.Gate.GPU
			default:
				services.Attention.GPU, services.Attention.KVBytes = gpu, 0
			}
			gpu.Watch = gpus.NewWatch(said)
			replica := cluster.NewPipeline(y.Settings.Node, services, map[string]int{service: 1})
			if err := replica.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- replica.Run(t.Context()) }()
			testkit.Eventually(t, "metrics of the GPU", func() bool { return watts(t, y) == 350 })
			said.Lose()
			var device *gpus.Error
			if err := <-ended; !errors.As(err, &device) || !errors.Is(err, kernels.ErrLost) {
				t.Errorf("the replica ended with %v", err)
			}
			if err := replica.Stop(context.Background()); err != nil {
				t.Error(err)
			}
			tokens(t, y, func(int) {})
		})
	}
	if err := y.Close(); err != nil {
		t.Error(err)
	}
}

// watts is what the metrics say of the GPU's power; 0 if nothing.
func watts(t *testing.T, y *cluster.Cluster) float64 {
	t.Helper()
	families, err := y.Settings.Node.Shared.Telemetry.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "switchyard_gpu_power_watts" {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	return 0
}

// wantLost asks until the host has got rows for its lost GPU, and has ended.
func wantLost(t *testing.T, y *cluster.Cluster, ended <-chan error) {
	t.Helper()
	testkit.Eventually(t, "the host ends without its GPU", func() bool {
		select {
		case err := <-ended:
			var device *gpus.Error
			if !errors.As(err, &device) || !errors.Is(err, kernels.ErrLost) {
				t.Errorf("the host ended with %v", err)
			}
			return true
		default:
			tokens(t, y, func(int) {})
			return false
		}
	})
}

// wantNoRoom wants a pipeline not to start for want of a GPU's memory, and returns what it
// says of that.
func wantNoRoom(t *testing.T, s cluster.Settings) (short kernels.MemoryError) {
	t.Helper()
	y, err := cluster.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(y.Ready(t.Context()), y.Close())
	var unusable *gpus.Error
	var says *kernels.MemoryError
	if !errors.As(err, &unusable) || !errors.As(err, &says) {
		t.Fatal(err)
	}
	return *says
}

// A host with a GPU does not join replicas that compute other bits, unless all have
// agreed to that; then answers say so.
func TestGPUBesideCPU(t *testing.T) {
	for name, class := range map[string]string{"refused": "", "agreed": deployment.MixedClasses} {
		t.Run(name, func(t *testing.T) { joinGPU(t, class) })
	}
}

func joinGPU(t *testing.T, class string) {
	s := settings(t)
	s.Node.Shared.Class = class
	y := ready(t, s)
	node, services := *y.Settings.Node, s.Services
	_, services.Expert.GPU = gpuOf(t)
	if class == "" {
		node.Shared.Class = "fma32+cuda1-sm_90-p2"
	}
	host := cluster.NewPipeline(&node, services, map[string]int{"expert": 1})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	started := make(chan error, 1)
	go func() { started <- host.Start(ctx) }()
	var refused *deployment.ClassError
	testkit.Eventually(t, "it has started, or may not", func() bool { return len(started) > 0 || errors.As(host.Ready(), &refused) })
	if refused != nil {
		end()
	}
	err := <-started
	switch {
	case class == "" && (!errors.As(err, &refused) || refused.Here.NumericClass != node.Shared.Class || refused.There.NumericClass != "fma32"):
		t.Errorf("a host of another class starts: %v", err)
	case class != "" && err != nil:
		t.Error(err)
	}
	if got := said(t, y); got != (class != "") {
		t.Errorf("the last chunk says mixed: %v", got)
	}
	if err := host.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

// said is what the last chunk of an answer says of classes.
func said(t *testing.T, y *cluster.Cluster) (mixed bool) {
	t.Helper()
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	n := int32(2)
	stream, err := c.Prompt(t.Context(), &pb.Prompt{InputIds: []uint32{1}, MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err != nil || chunk.MixedClasses != nil && chunk.FinishReason == "" {
			t.Fatal(err, chunk)
		}
		mixed = chunk.GetMixedClasses()
	}
	return mixed
}

// tokens are those of an answer; each is told to see.
func tokens(t *testing.T, y *cluster.Cluster, see func(n int)) (all []uint32) {
	t.Helper()
	c, stop, err := y.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	n := int32(24)
	stream, err := c.Prompt(t.Context(), &pb.Prompt{InputIds: []uint32{1, 2, 3}, MaxTokens: &n, IgnoreEos: true})
	if err != nil {
		t.Fatal(err)
	}
	for chunk, err := range stream.Chunks() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk.TokenIds...)
		see(len(all))
	}
	if len(all) != int(n) {
		t.Errorf("%d tokens", len(all))
	}
	return all
}
