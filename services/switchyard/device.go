package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/kernels/cpu"
	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// gpuFlags are a flag that may name a GPU, and one for what is taken of it, with
// their values.
type gpuFlags struct{ name, device, memoryName, memory, kinds string }

// cpuOrGPU is what such a flag may be, unless hosts can be paced, too.
const cpuOrGPU = "cpu, cuda or cuda:N"

// isGPU says whether a device is meant to be one.
func isGPU(device string) bool { return device == "cuda" || strings.HasPrefix(device, "cuda:") }

// open looks whether the GPU can be used; nil: it is none.
func (f gpuFlags) open() (*gpus.GPU, error) {
	memory, err := parseBytes(f.memoryName, f.memory)
	if err != nil {
		return nil, err
	}
	_, number, numbered := strings.Cut(f.device, ":")
	switch {
	case !isGPU(f.device) && memory != 0:
		return nil, usage(fmt.Errorf("--%s is %s; it is of --%s cuda only", f.memoryName, f.memory, f.name))
	case f.device == "cpu", f.device == "paced" && strings.Contains(f.kinds, "paced"):
		return nil, nil
	}
	index := 0
	if numbered {
		index, err = strconv.Atoi(number)
	}
	if !isGPU(f.device) || err != nil || index < 0 {
		return nil, usage(fmt.Errorf("--%s is %q; it must be %s", f.name, f.device, f.kinds))
	}
	g, err := openGPU(index)
	if err != nil {
		return nil, usage(fmt.Errorf("--%s %s: %w", f.name, f.device, err))
	}
	g.Memory = uint64(memory)
	return g, nil
}

// kernelsOn sets what multiplies experts on a GPU, if there is one and it can.
func kernelsOn(g *gpus.GPU, name string) error {
	k := kernels.Kernels(name)
	if g == nil && k == kernels.Wgmma {
		return usage(fmt.Errorf("--gpu-kernels is %s; it is of --device cuda only", name))
	}
	if g == nil {
		return nil
	}
	if err := k.On(g.Info); err != nil {
		return usage(fmt.Errorf("--gpu-kernels %s: %w", name, err))
	}
	g.Kernels = k
	return nil
}

// StageFlags say what computes attention and gates, where all services run in one process.
type StageFlags struct {
	AttentionDevice    string `default:"cpu" help:"What computes attention: cpu, or cuda (a GPU, or cuda:N the one of that number; never run on one yet)." placeholder:"KIND"`
	AttentionGPUMemory string `name:"attention-gpu-memory" default:"0" help:"Memory that attention takes of its GPU, such as 40GiB; 0 is nine tenths of what is free." placeholder:"BYTES"`
	GateDevice         string `default:"cpu" help:"What chooses experts: cpu, or cuda (a GPU, or cuda:N the one of that number; never run on one yet), with the same bits." placeholder:"KIND"`
}

// attention is nil for a device that is no GPU.
func (f StageFlags) attention() (*gpus.GPU, error) {
	return gpuFlags{"attention-device", f.AttentionDevice, "attention-gpu-memory", f.AttentionGPUMemory, cpuOrGPU}.open()
}

func (f StageFlags) gate() (gate.Config, error) { return gateConfig("gate-device", f.GateDevice) }

// tellGPU says what computes such work, if that is a GPU.
func tellGPU(e *env, work string, g *gpus.GPU, t *telemetry.Config) {
	if g == nil {
		return
	}
	t.Device = "cuda:" + g.Info.Name
	e.log.Info("a GPU computes "+work, "gpu", g.Info.Name, "index", g.Info.Index, "architecture", g.Info.Arch.String(), "memory_bytes", g.Info.Memory)
	if g.Unwatched != nil {
		e.log.Warn("the GPU says nothing of itself: its memory, power and temperature are not shown, and so is not whether it throttles; it computes all the same", "error", g.Unwatched)
	}
}

// gateConfig takes what a flag names to choose experts. Gates take of a GPU what they need.
func gateConfig(name, device string) (c gate.Config, err error) {
	c.GPU, err = gpuFlags{name, device, "", "0", cpuOrGPU}.open()
	return c, err
}

// classOf is the numeric class of a process with such services. Gates on GPUs have the CPU's.
func classOf(s cluster.Services, m ModelFlags) string {
	if m.MixedClasses {
		return deployment.MixedClasses
	}
	class, parts := cpu.Class(), gpus.Parts(m.wire())
	if g := s.Expert.GPU; g != nil {
		class += "+" + cuda.Class(g.Info.Arch, parts, g.Kernels)
	}
	if g := s.Attention.GPU; g != nil {
		class += "+attention-" + cuda.Class(g.Info.Arch, parts, g.Kernels)
	}
	return class
}
