// Package gpus is the GPUs of a process as its replicas use them: how each opens one
// (GPU), and what one says of itself meanwhile (Watch).
//
// A Watch reads once a second and decides what follows: a GPU that has been slowed for
// most of the recent time (quarantine.Throttle) is to be avoided, and one that is gone
// is lost to its replicas. Those of a process that share a GPU share its Watch. A GPU
// computes without one: where there is no library to read from, none is made.
package gpus

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// GPU is one that replicas compute with; each opens it for itself. The nil GPU is none.
type GPU struct {
	// Info is what its driver says of it.
	Info cuda.Info
	// Backend computes on it.
	Backend Backend
	// Watch is of what it says of itself; nil where it says nothing, and Unwatched why.
	Watch     *Watch
	Unwatched error
	// Memory is the bytes that each replica takes of it; 0 is nine tenths of what is free.
	Memory uint64
	// Kernels multiply experts' weights of bf16.
	Kernels cuda.Kernels
}

// Error says that a replica's GPU cannot be used, or not any more.
type Error struct{ Err error }

// Error returns the words of what is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Parts returns how many bf16 numbers a GPU takes for an element of a row: rows of bf16
// are one each, and two are near float32.
func Parts(w tensor.Wire) int {
	if w == tensor.BF16 {
		return 1
	}
	return 2
}

// Share lets both have one Watch, if they are the same GPU.
func (g *GPU) Share(with *GPU) {
	if g != nil && with != nil && g.Info.PCI == with.Info.PCI {
		g.Watch, g.Unwatched = with.Watch, with.Unwatched
	}
}

// Follow watches the GPU, if it says anything of itself, until stop is called: its
// figures are shown, and if it is lost, lose hears it once.
func (g *GPU) Follow(ctx context.Context, log *slog.Logger, shown *telemetry.GPUs, lose func(error)) (stop func()) {
	if g == nil || g.Watch == nil {
		return func() {}
	}
	unwatch := g.Watch.Follow(ctx, log, lose)
	untell := shown.Follow(g.Info.Index, g.Watch.State)
	return func() {
		untell()
		unwatch()
	}
}

// Throttles reports whether the GPU is slowed and has been for most of the recent time, so
// that others should do what it would.
func (g *GPU) Throttles() bool { return g != nil && g.Watch != nil && g.Watch.State().Avoid }

// Figures returns what the GPU says of itself, for heartbeats and samples of loads; nil
// without a GPU, or of one that says nothing.
func (g *GPU) Figures() map[string]float64 {
	if g == nil || g.Watch == nil {
		return nil
	}
	now := g.Watch.State()
	if now.Values == nil {
		return nil
	}
	figures := map[string]float64{members.DeviceThrottled: 0}
	if now.Avoid {
		figures[members.DeviceThrottled] = 1
	}
	for name, v := range now.Values {
		figures[string(name)] = v
	}
	return figures
}

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

// IsGPU reports whether a device is meant to be one.
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

// Class returns the numeric class of what the GPU computes of rows of so many parts: what an mma rounds
// is an architecture's own, and the number of parts and other kernels are another contract. The 1
// is the version of the kernels' order of sums.
func (g *GPU) Class(parts int) string {
	return fmt.Sprintf("cuda1-%v-p%d%s", g.Info.Arch, parts, g.Kernels.Suffix())
}

// Experts opens the GPU for a model's routed experts, whose rows have this wire's type.
// It fails with *Error.
func (g *GPU) Experts(m *model.Model, w tensor.Wire, s device.Settings) (Experts, error) {
	return usable(g.Backend.Experts(m, g, w, s))
}

// Attention opens the GPU for a model's backbone. It fails with *Error.
func (g *GPU) Attention(ctx context.Context, m *model.Model, p *pool.Pool, s Steps) (Attention, error) {
	return usable(g.Backend.Attention(ctx, m, p, g, s))
}

// Gates opens the GPU for a model's gates. It fails with *Error.
func (g *GPU) Gates(ctx context.Context, m *model.Model) (Gates, error) {
	return usable(g.Backend.Gates(ctx, m))
}

// usable returns what was opened, and says that the GPU cannot be used where it was not.
func usable[T any](opened T, err error) (T, error) {
	if err != nil {
		return opened, &Error{Err: err}
	}
	return opened, nil
}
