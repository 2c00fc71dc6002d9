package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// A GPU refuses quantised weights, and they are in the numeric class.
func TestPrecisionFlag(t *testing.T) {
	m := &model.Model{Precision: model.Q8}
	s := cluster.Services{Expert: expert.Config{GPU: &gpus.GPU{}}}
	if err := up.CheckServices(s, m, nil); err == nil || !strings.Contains(err.Error(), "--precision is q8, and a GPU") {
		t.Error(err)
	}
	plain, q8 := up.ModelFlags{}, up.ModelFlags{PrecisionFlag: up.PrecisionFlag{Precision: "q8"}}
	w8a8 := up.ModelFlags{PrecisionFlag: up.PrecisionFlag{Precision: "w8a8"}}
	if a, b, c := up.ClassOf(cluster.Services{}, plain), up.ClassOf(cluster.Services{}, q8), up.ClassOf(cluster.Services{}, w8a8); b != a+"-q8" || c != a+"-w8a8-kv16" {
		t.Errorf("class %s, of q8 %s, of w8a8 %s", a, b, c)
	}
	if q8.MixedClasses = true; q8.CheckMixed() == nil {
		t.Error("replicas of any precision join those of q8")
	}
	if plain.MixedClasses = true; plain.CheckMixed() != nil {
		t.Error(plain.CheckMixed())
	}
}

// In what keys and values are kept is in the numeric class, as far as it makes other bits; attention on a
// GPU keeps them in its own way.
func TestKVCacheFlag(t *testing.T) {
	base := up.ClassOf(cluster.Services{}, up.ModelFlags{})
	for _, tt := range []struct{ precision, kept, want string }{
		{"bf16", "auto", ""}, {"bf16", "f32", ""}, {"bf16", "bf16", "-kv16"}, {"bf16", "int8", "-kv8"},
		{"q8", "int8", "-q8-kv8"}, {"w8a8", "f32", "-w8a8"}, {"w8a8", "bf16", "-w8a8-kv16"}, {"w4a8", "int8", "-w4a8-kv8"},
	} {
		f := up.ModelFlags{PrecisionFlag: up.PrecisionFlag{Precision: tt.precision, KVCacheFlag: up.KVCacheFlag{KVCacheDtype: tt.kept}}}
		if got := up.ClassOf(cluster.Services{}, f); got != base+tt.want {
			t.Errorf("%s with keys and values in %s: class %s, want %s", tt.precision, tt.kept, got, base+tt.want)
		}
		f.Precision, f.MixedClasses = "bf16", true
		if err := f.CheckMixed(); (err != nil) != (tt.kept == "bf16" || tt.kept == "int8") {
			t.Errorf("%s among mixed classes: %v", tt.kept, err)
		}
	}
	m, onGPU := &model.Model{KVCache: model.KVInt8}, cluster.Services{Attention: attention.Config{GPU: &gpus.GPU{}}}
	if err := up.CheckServices(onGPU, m, nil); err == nil || !strings.Contains(err.Error(), "--kv-cache-dtype is int8, and attention on a GPU keeps") {
		t.Error(err)
	}
}

// A variant that --kernels names computes; another one is refused with those that there are.
func TestKernelsFlag(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"sse9", `--kernels: unknown kernel variant "sse9"; this processor has generic`},
		{"avx2", `--kernels: the kernel variant "avx2" is switched off by SWITCHYARD_NO_AVX2: choose generic`},
	} {
		t.Setenv("SWITCHYARD_NO_AVX2", "1")
		if got := invoke("", "demo", "--kernels", tt.name); got.Code != 2 || !strings.Contains(got.Err, tt.want) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
	defer func(old string) { _ = cpu.Pin(old) }(cpu.Name())
	for _, args := range [][]string{{"up"}, {"expert"}, {"attention"}, {"gate"}, {"bench"}, {"verify", "."}, {"eval", "--recording", "rec"}} {
		t.Setenv("SWITCHYARD_NO_AVX2", "")
		var c CLI
		parsed, err := parse(&c, append(args, "--kernels", "generic"), cli.Stdio{})
		if err == nil {
			err = cli.PinKernels(parsed)
		}
		if err != nil || cpu.Name() != "generic" {
			t.Errorf("%v: %s computes, %v", args, cpu.Name(), err)
		}
		_ = cpu.Pin(cpu.Available()[len(cpu.Available())-1])
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
		want := up.ClassOf(cluster.Services{}, up.ModelFlags{Wire: "bf16"}) + "+" + tt.class +
			"+attention-" + strings.TrimSuffix(tt.class, "-wgmma")
		if got := up.ClassOf(s, up.ModelFlags{Wire: "bf16"}); got != want {
			t.Errorf("%s on %v: class %s, want %s", tt.name, tt.arch, got, want)
		}
	}
}
