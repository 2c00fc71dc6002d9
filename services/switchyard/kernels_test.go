package main

import (
	"errors"
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// wgmma is refused by name where the GPU has none, and the class of what it computes names it.
func TestGPUKernels(t *testing.T) {
	hopper, ampere := kernels.Arch{Major: 9}, kernels.Arch{Major: 8}
	for _, tt := range []struct {
		name    string
		arch    kernels.Arch
		class   string
		refused bool
	}{
		{"mma", ampere, "cuda1-sm_80-p1", false},
		{"mma", hopper, "cuda1-sm_90-p1", false},
		{"wgmma", ampere, "", true},
		{"wgmma", hopper, "cuda1-sm_90-p1-wgmma", false},
		{"auto", ampere, "cuda1-sm_80-p1", false},
		{"auto", hopper, "cuda1-sm_90-p1-wgmma", false},
	} {
		g := &gpus.GPU{Info: kernels.Info{Name: "a GPU", Arch: tt.arch}}
		err := g.MultiplyBy(tt.name)
		var refused *kernels.KernelsError
		if errors.As(err, &refused) != tt.refused || err != nil != tt.refused {
			t.Errorf("%s on %v: %v", tt.name, tt.arch, err)
		}
		if tt.refused {
			continue
		}
		attending := *g
		attending.Kernels = "" // the flag is experts'
		s := cluster.Services{Expert: expert.Config{GPU: g}, Attention: attention.Config{GPU: &attending}}
		want := classOf(cluster.Services{}, ModelFlags{Wire: "bf16"}) + "+" + tt.class +
			"+attention-" + strings.TrimSuffix(tt.class, "-wgmma")
		if got := classOf(s, ModelFlags{Wire: "bf16"}); got != want {
			t.Errorf("%s on %v: class %s, want %s", tt.name, tt.arch, got, want)
		}
	}
}
