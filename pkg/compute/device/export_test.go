package device

import (
	"context"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// NewFaultyCPU is NewCPU with loads that call begin first.
func NewFaultyCPU(m *model.Model, p *pool.Pool, s Settings, begin func(context.Context, forward.ExpertID) error) *CPU {
	return newCPU(m, p, faulty{packer{m: m}, begin}, s)
}

type faulty struct {
	packer
	begin func(context.Context, forward.ExpertID) error
}

func (f faulty) Load(ctx context.Context, id forward.ExpertID) (*forward.Expert, error) {
	if err := f.begin(ctx, id); err != nil {
		return nil, err
	}
	return f.packer.Load(ctx, id)
}
