package gpus

import (
	"context"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Backend computes on GPUs. cudabackend has the one that there is.
type Backend interface {
	// CheckExperts, CheckAttention and CheckGates refuse a model for which there are no kernels. They
	// read no weights.
	CheckExperts(m *model.Model) error
	CheckAttention(m *model.Model) error
	CheckGates(m *model.Model) error
	// Experts opens a GPU for a model's routed experts, whose rows have this wire's type.
	Experts(m *model.Model, g *GPU, w tensor.Wire, s device.Settings) (Experts, error)
	// Attention opens a GPU for a model's backbone.
	Attention(ctx context.Context, m *model.Model, p *pool.Pool, g *GPU, s Steps) (Attention, error)
	// Gates opens a GPU for a model's gates.
	Gates(ctx context.Context, m *model.Model) (Gates, error)
}

// Experts computes routed experts.
type Experts interface {
	device.Device
	Loser
}

// Attention computes the backbone of a model.
type Attention interface {
	forward.Computer
	Loser
	Close()
}

// Gates chooses experts.
type Gates interface {
	forward.Gates
	Loser
	Close()
}

// Loser is open on a GPU, and may lose it.
type Loser interface {
	device.Failer
	// Lose ends the use of the GPU as if its driver had said so. why is a cuda.ErrLost.
	Lose(why error)
}

// Steps is what attention on a GPU is opened for.
type Steps struct {
	Wire tensor.Wire
	// Positions bounds a sequence, Rows a step, Lanes how many steps compute at a time.
	Positions, Rows, Lanes int
	// Ungraphed is told once why launches go one by one from now on; nil: nobody is.
	Ungraphed func(why error)
}
