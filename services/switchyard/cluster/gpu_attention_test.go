package cluster_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// A GPU of attention that refuses launches, and then is lost in the middle of a request,
// costs no token: another replica goes on. The one whose GPU it was ends with an error.
func TestAttentionLosesGPU(t *testing.T) {
	s := settings(t)
	s.Services.Attention.KVBytes = 0
	_, s.Services.Attention.GPU = gpuOf(t)
	y := ready(t, s)
	want := tokens(t, y, func(int) {})

	gpu, config := gpuOf(t)
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
	testkit.Eventually(t, "it has ended", func() bool {
		if got := ask(); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	var device *gpus.Error
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

// A GPU that has no room for graphs computes without them, with the same tokens, and the log says
// so once.
func TestAttentionWithoutGraphs(t *testing.T) {
	var want []uint32
	for _, refused := range []bool{false, true} {
		s, said := settings(t), &log{}
		gpu, config := gpuOf(t)
		s.Services.Attention.KVBytes, s.Services.Attention.GPU = 0, config
		s.Node.Shared.Logger = slog.New(slog.NewTextHandler(said, nil))
		if refused {
			gpu.Faults.Refuse("cuGraphInstantiate", kernels.CodeOutOfMemory, 1)
		}
		y := ready(t, s)
		got := tokens(t, y, func(int) {})
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("without graphs %v: %v, want %v", refused, got, want)
		}
		warned := strings.Count(said.String(), "makes or runs no graphs")
		if _, captured, run := gpu.Graphs(); (warned == 1) != refused || (captured == 0) != refused || (run == 0) != refused {
			t.Errorf("without graphs %v: %d were captured and %d run, and the log says so %d times", refused, captured, run, warned)
		}
		if err := y.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A GPU with too little memory for attention keeps it from starting, and says how much
// there is and how much it takes.
func TestAttentionGPUWithoutRoom(t *testing.T) {
	s := settings(t)
	gpu, config := gpuOf(t)
	s.Services.Attention.KVBytes, s.Services.Attention.GPU = 0, config
	gpu.Faults.Take(32 << 20)
	if short := wantNoRoom(t, s); short.Need != 60<<20 || short.Free != 32<<20 {
		t.Errorf("%v", &short)
	}
}
