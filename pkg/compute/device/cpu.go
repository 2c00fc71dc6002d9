package device

import (
	"context"
	"sync/atomic"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
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
	return newCPU(m, p, PackedOn(m, p, s), s)
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
func Packed(m *model.Model) Loader[*forward.Expert] { return packer{m: m} }

// PackedOn is Packed with experts beside, by threads that have nothing else to do. Where a budget bounds experts, what
// they leave is memory for others.
func PackedOn(m *model.Model, p *pool.Pool, s Settings) Loader[*forward.Expert] {
	l := packer{m: m, beside: s.Beside, run: safetensors.Shared(p.Spare), sizes: make([]atomic.Int64, m.Spec.Layers*m.Spec.Experts)}
	if s.Budget > 0 {
		l.spaces = newSpaces(l.run)
	}
	return l
}

type packer struct {
	m      *model.Model
	beside Beside
	run    func(n int, f func(i int)) // nil: on the caller alone
	sizes  []atomic.Int64             // (layers, experts), as far as they are known; nil: they are not kept
	spaces *spaces                    // nil: the collector has what experts leave
}

func (p packer) isBeside(id forward.ExpertID) bool {
	return p.beside != nil && id.Expert >= p.m.Spec.Experts
}

func (p packer) Size(id forward.ExpertID) (int64, error) {
	if p.isBeside(id) {
		return p.beside.Size(id)
	}
	if at := id.Layer*p.m.Spec.Experts + id.Expert; p.sizes != nil && min(id.Layer, id.Expert) >= 0 && id.Layer < p.m.Spec.Layers && id.Expert < p.m.Spec.Experts {
		if n := p.sizes[at].Load(); n > 0 {
			return n, nil
		}
		n, err := forward.ExpertBytes(p.m, id)
		p.sizes[at].Store(n)
		return n, err
	}
	return forward.ExpertBytes(p.m, id)
}

func (p packer) Load(ctx context.Context, id forward.ExpertID) (e *forward.Expert, err error) {
	by := cpu.Packer{Run: p.run}
	if p.spaces != nil {
		size, err := p.Size(id)
		if err != nil {
			return nil, err
		}
		by.Space = p.space(id, size)
		defer func() {
			if e == nil { // also where a file cannot be read any more
				p.spaces.give(size, by.Space)
			}
		}()
	}
	if p.isBeside(id) {
		return p.beside.Load(ctx, id)
	}
	return forward.LoadExpertBy(ctx, by, p.m, id)
}

// space counts an expert as one in use. One beside has no space.
func (p packer) space(id forward.ExpertID, size int64) *cpu.Space {
	if p.isBeside(id) {
		return p.spaces.use(size, false)
	}
	return p.spaces.take(size)
}

// Free leaves an expert's memory to later ones, or to the collector.
func (p packer) Free(e *forward.Expert) {
	if p.spaces != nil {
		p.spaces.give(e.Bytes(), e.Space())
	}
}
