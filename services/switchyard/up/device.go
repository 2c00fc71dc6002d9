package up

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// StageFlags say what computes attention and gates, where all services run in one process.
type StageFlags struct {
	AttentionDevice    string `default:"cpu" help:"What computes attention: cpu, or cuda (a GPU, or cuda:N the one of that number)." placeholder:"KIND" advanced:""`
	AttentionGPUMemory string `name:"attention-gpu-memory" default:"0" help:"Memory that attention takes of its GPU, such as 40GiB; 0 is nine tenths of what is free." placeholder:"BYTES" advanced:""`
	GateDevice         string `default:"cpu" help:"What chooses experts: cpu, or cuda (a GPU, or cuda:N the one of that number), with the same bits." placeholder:"KIND" advanced:""`
}

// attention returns the GPU of attention; nil for a device that is none.
func (f StageFlags) attention() (*gpus.GPU, error) {
	return gpus.Flag{
		Name: "attention-device", Device: f.AttentionDevice, MemoryName: "attention-gpu-memory", Memory: f.AttentionGPUMemory, Kinds: gpus.CPUOrGPU,
	}.Open(openGPU)
}

// gate returns what chooses experts.
func (f StageFlags) gate() (gate.Config, error) {
	return gate.On("gate-device", f.GateDevice, service.Process{GPU: openGPU})
}

// tellGPU says what computes such work, if that is a GPU.
func tellGPU(e *cli.Env, work string, g *gpus.GPU, t *telemetry.Config) {
	if g == nil {
		return
	}
	t.Device = "cuda:" + g.Info.Name
	e.Log.Info("a GPU computes "+work, "gpu", g.Info.Name, "index", g.Info.Index, "architecture", g.Info.Arch.String(), "memory_bytes", g.Info.Memory)
	if g.Unwatched != nil {
		e.Log.Warn("the GPU says nothing of itself: its memory, power and temperature are not shown, and so is not whether it throttles; it computes all the same", "error", g.Unwatched)
	}
}

// CheckServices refuses what the model makes impossible for the services that run.
func CheckServices(s cluster.Services, m *model.Model, count map[string]int) error {
	if m.Precision.Own() && (s.Expert.GPU != nil || s.Attention.GPU != nil) {
		return fmt.Errorf("--precision is %s, and a GPU computes with weights as they are stored: leave out --precision, or the GPU", m.Precision)
	}
	if s.Attention.GPU != nil && m.KVCache.Chosen() {
		return fmt.Errorf("--kv-cache-dtype is %s, and attention on a GPU keeps keys and values in bf16 with --wire bf16, and in two parts of bf16 with --wire f32: leave out --kv-cache-dtype, or compute attention on the CPU", m.KVCache)
	}
	return s.Check(m, count)
}

// ClassOf returns the numeric class of a process with such services. Gates on GPUs have the CPU's.
func ClassOf(s cluster.Services, m ModelFlags) string {
	if m.MixedClasses {
		return deployment.MixedClasses
	}
	class, parts := cpu.Class()+model.Class(model.Precision(m.Precision), m.Kind()), gpus.Parts(m.WireType())
	if g := s.Expert.GPU; g != nil {
		class += "+" + g.Class(parts)
	}
	if g := s.Attention.GPU; g != nil {
		class += "+attention-" + g.Class(parts)
	}
	return class
}
