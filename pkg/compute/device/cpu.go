package device

import (
	"context"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// CPU holds experts in this process's memory and computes on its pool.
type CPU struct {
	*Store[*forward.Expert]
	p *pool.Pool
}

var _ Device = (*CPU)(nil)

// NewCPU returns a device for a model's experts that computes on p. Both are
// the caller's and outlive it.
func NewCPU(m *model.Model, p *pool.Pool, s Settings) *CPU {
	return newCPU(m, p, PackedWith(m, s.Beside), s)
}

func newCPU(m *model.Model, p *pool.Pool, l Loader[*forward.Expert], s Settings) *CPU {
	return &CPU{NewStore(m.Spec.Layers, s.Units(m.Spec), l, s), p}
}

// Compute computes at once, on the caller and the pool.
func (c *CPU) Compute(in forward.Routed, out []float32, s *forward.ExpertScratch) error {
	return forward.ComputeExperts(c.p, c, in, out, s)
}

// Name is "cpu".
func (c *CPU) Name() string { return "cpu" }

// Packed loads a model's experts as kernels want them.
func Packed(m *model.Model) Loader[*forward.Expert] { return packer{m, nil} }

// PackedWith is Packed with experts beside.
func PackedWith(m *model.Model, beside Beside) Loader[*forward.Expert] { return packer{m, beside} }

type packer struct {
	m      *model.Model
	beside Beside
}

func (p packer) isBeside(id forward.ExpertID) bool {
	return p.beside != nil && id.Expert >= p.m.Spec.Experts
}

// Size is the bytes of an expert's packed matrices.
func (p packer) Size(id forward.ExpertID) (int64, error) {
	if p.isBeside(id) {
		return p.beside.Size(id)
	}
	return forward.ExpertBytes(p.m, id)
}

// Load reads an expert from the checkpoint and packs it.
func (p packer) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if p.isBeside(id) {
		return p.beside.Load(ctx, id)
	}
	return forward.LoadExpert(ctx, p.m, id)
}

// Free does nothing: the collector has it.
func (packer) Free(*forward.Expert) {}
