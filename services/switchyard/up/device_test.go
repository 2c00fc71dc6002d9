package up

import (
	"errors"
	"strings"
	"testing"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Experts and attention on one GPU must each say how much of it they take.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	on := func(index int, memory uint64) *gpus.GPU {
		return &gpus.GPU{Info: kernels.Info{Index: index}, Memory: memory}
	}
	for _, tt := range []struct {
		name               string
		experts, attention *gpus.GPU
		refused            bool
	}{
		{"neither", nil, nil, false},
		{"experts alone", on(0, 0), nil, false},
		{"attention alone", nil, on(0, 0), false},
		{"two GPUs", on(0, 0), on(1, 0), false},
		{"both by number", on(0, 1), on(0, 1), false},
		{"both by share", on(0, 0), on(0, 0), true},
		{"experts by share", on(1, 0), on(1, 5), true},
		{"attention by share", on(1, 5), on(1, 0), true},
	} {
		if err := shared(tt.experts, tt.attention); (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "--attention-gpu-memory") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// A GPU refuses quantised weights, and they are in the numeric class.
func TestPrecisionFlag(t *testing.T) {
	m := &model.Model{Precision: model.Q8}
	s := cluster.Services{Expert: expert.Config{GPU: &gpus.GPU{}}}
	if err := CheckServices(s, m, nil); err == nil || !strings.Contains(err.Error(), "--precision is q8, and a GPU") {
		t.Error(err)
	}
	plain, q8 := ModelFlags{}, ModelFlags{PrecisionFlag: PrecisionFlag{Precision: "q8"}}
	w8a8 := ModelFlags{PrecisionFlag: PrecisionFlag{Precision: "w8a8"}}
	if a, b, c := ClassOf(cluster.Services{}, plain), ClassOf(cluster.Services{}, q8), ClassOf(cluster.Services{}, w8a8); b != a+"-q8" || c != a+"-w8a8-kv16" {
		t.Errorf("class %s, of q8 %s, of w8a8 %s", a, b, c)
	}
	if q8.MixedClasses = true; q8.checkMixed() == nil {
		t.Error("replicas of any precision join those of q8")
	}
	if plain.MixedClasses = true; plain.checkMixed() != nil {
		t.Error(plain.checkMixed())
	}
}

// In what keys and values are kept is in the numeric class, as far as it makes other bits; attention on a
// GPU keeps them in its own way.
func TestKVCacheFlag(t *testing.T) {
	base := ClassOf(cluster.Services{}, ModelFlags{})
	for _, tt := range []struct{ precision, kept, want string }{
		{"bf16", "auto", ""}, {"bf16", "f32", ""}, {"bf16", "bf16", "-kv16"}, {"bf16", "int8", "-kv8"},
		{"q8", "int8", "-q8-kv8"}, {"w8a8", "f32", "-w8a8"}, {"w8a8", "bf16", "-w8a8-kv16"}, {"w4a8", "int8", "-w4a8-kv8"},
	} {
		f := ModelFlags{PrecisionFlag: PrecisionFlag{Precision: tt.precision, KVCacheFlag: KVCacheFlag{KVCacheDtype: tt.kept}}}
		if got := ClassOf(cluster.Services{}, f); got != base+tt.want {
			t.Errorf("%s with keys and values in %s: class %s, want %s", tt.precision, tt.kept, got, base+tt.want)
		}
		f.Precision, f.MixedClasses = "bf16", true
		if err := f.checkMixed(); (err != nil) != (tt.kept == "bf16" || tt.kept == "int8") {
			t.Errorf("%s among mixed classes: %v", tt.kept, err)
		}
	}
	m, onGPU := &model.Model{KVCache: model.KVInt8}, cluster.Services{Attention: attention.Config{GPU: &gpus.GPU{}}}
	if err := CheckServices(onGPU, m, nil); err == nil || !strings.Contains(err.Error(), "--kv-cache-dtype is int8, and attention on a GPU keeps") {
		t.Error(err)
	}
}

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
		want := ClassOf(cluster.Services{}, ModelFlags{Wire: "bf16"}) + "+" + tt.class +
			"+attention-" + strings.TrimSuffix(tt.class, "-wgmma")
		if got := ClassOf(s, ModelFlags{Wire: "bf16"}); got != want {
			t.Errorf("%s on %v: class %s, want %s", tt.name, tt.arch, got, want)
		}
	}
}
