package device

import (
	"context"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// NewFaultyCPU is NewCPU with loads that call begin first.
func NewFaultyCPU(m *model.Model, p *pool.Pool, s Settings, begin func(context.Context, forward.ExpertID) error) *CPU {
	return newCPU(m, p, faulty{PackedOn(m, p, s), begin}, s)
}

type faulty struct {
	Loader[*forward.Expert]
	begin func(context.Context, forward.ExpertID) error
}

func (f faulty) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if err := f.begin(ctx, id); err != nil {
		return nil, err
	}
	return f.Loader.Load(ctx, id)
}

// Spaces are the bytes that a device counts as experts in use, and as spare memory.
func Spaces(d *CPU) (used, spare int64) {
	p, _ := d.loader.(packer)
	s := p.spaces
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.kept
}
