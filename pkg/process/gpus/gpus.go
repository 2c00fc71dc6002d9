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
	"log/slog"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// GPU is one that replicas compute with; each opens it for itself. The nil GPU is none.
type GPU struct {
	// Info is what its driver says of it.
	Info cuda.Info
	// Open opens it for one replica.
	Open func() (cuda.Driver, error)
	// Images are the kernels that it runs.
	Images cuda.Images
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

// Error is the words of what is wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Parts is how many bf16 numbers a GPU takes for an element of a row: rows of bf16
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

// Throttles says whether the GPU is slowed and has been for most of the recent time, so
// that others should do what it would.
func (g *GPU) Throttles() bool { return g != nil && g.Watch != nil && g.Watch.State().Avoid }

// Figures are what the GPU says of itself, for heartbeats and samples of loads; nil
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
