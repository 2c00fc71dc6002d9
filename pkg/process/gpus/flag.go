package gpus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/kernels/cuda"
)

// Flag is a flag that may name a GPU, and one for what is taken of it, with their values.
type Flag struct {
	Name, Device string
	// MemoryName may be empty where Memory is 0.
	MemoryName, Memory string
	// Kinds are what Device may be, for people: CPUOrGPU, or more.
	Kinds string
}

// CPUOrGPU is what such a flag may be, unless hosts can be paced, too.
const CPUOrGPU = "cpu, cuda or cuda:N"

// IsGPU says whether a device is meant to be one.
func IsGPU(device string) bool { return device == "cuda" || strings.HasPrefix(device, "cuda:") }

// Open looks whether the GPU can be used; nil: it is none. find finds the GPU of a number.
func (f Flag) Open(find func(index int) (*GPU, error)) (*GPU, error) {
	memory, err := flagvalue.Bytes(f.MemoryName, f.Memory)
	if err != nil {
		return nil, err
	}
	_, number, numbered := strings.Cut(f.Device, ":")
	switch {
	case !IsGPU(f.Device) && memory != 0:
		return nil, fmt.Errorf("--%s is %s; it is of --%s cuda only", f.MemoryName, f.Memory, f.Name)
	case f.Device == "cpu", f.Device == "paced" && strings.Contains(f.Kinds, "paced"):
		return nil, nil //nolint:nilnil // the nil GPU is none
	}
	index := 0
	if numbered {
		index, err = strconv.Atoi(number)
	}
	if !IsGPU(f.Device) || err != nil || index < 0 {
		return nil, fmt.Errorf("--%s is %q; it must be %s", f.Name, f.Device, f.Kinds)
	}
	g, err := find(index)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", f.Name, f.Device, err)
	}
	g.Memory = uint64(memory)
	return g, nil
}

// auto is cuda.Fastest.
const auto = "auto"

// MultiplyBy sets what multiplies experts on a GPU, if there is one and it can: auto, or the
// kernels of that name.
func (g *GPU) MultiplyBy(name string) error {
	k := cuda.Kernels(name)
	switch {
	case g == nil && name != auto:
		return fmt.Errorf("--gpu-kernels is %s; it is of --device cuda only", name)
	case g == nil:
		return nil
	case name == auto:
		k = cuda.Fastest(g.Info)
	}
	if err := k.On(g.Info); err != nil {
		return fmt.Errorf("--gpu-kernels %s: %w", name, err)
	}
	g.Kernels = k
	return nil
}
