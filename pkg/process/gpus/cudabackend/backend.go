// Package cudabackend computes on GPUs with pkg/compute/device/cuda. What serves with a GPU knows
// gpus.Backend alone, so that the binary without the tag cuda has nothing of this.
package cudabackend

import (
	"context"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// Backend opens a GPU's driver anew for each replica. It is a gpus.Backend.
type Backend struct {
	// Driver opens the driver.
	Driver func() (kernels.Driver, error)
	// Images are the kernels that the GPU runs.
	Images kernels.Images
}

// CheckExperts refuses a model whose routed experts no kernel computes.
func (b Backend) CheckExperts(m *model.Model) error { return cuda.Check(m) }

// CheckAttention refuses a model whose attention no kernel computes.
func (b Backend) CheckAttention(m *model.Model) error { return cuda.CheckBackbone(m) }

// CheckGates refuses a model whose gates no kernel computes.
func (b Backend) CheckGates(m *model.Model) error { return cuda.CheckGates(m) }

// Experts opens the GPU for a model's routed experts.
func (b Backend) Experts(m *model.Model, g *gpus.GPU, w tensor.Wire, s device.Settings) (gpus.Experts, error) {
	driver, err := b.Driver()
	if err != nil {
		return nil, err
	}
	return orNone[gpus.Experts](cuda.Open(m, driver, b.Images, cuda.Settings{Settings: s, Memory: int64(g.Memory), Parts: gpus.Parts(w), Kernels: g.Kernels}))
}

// Attention opens the GPU for a model's backbone.
func (b Backend) Attention(ctx context.Context, m *model.Model, p *pool.Pool, g *gpus.GPU, s gpus.Steps) (gpus.Attention, error) {
	driver, err := b.Driver()
	if err != nil {
		return nil, err
	}
	return orNone[gpus.Attention](cuda.OpenBackbone(ctx, m, p, driver, b.Images, cuda.BackboneSettings{
		Memory: int64(g.Memory), Parts: gpus.Parts(s.Wire), Positions: s.Positions, Rows: s.Rows, Lanes: s.Lanes,
		Ungraphed: s.Ungraphed,
	}))
}

// Gates opens the GPU for a model's gates.
func (b Backend) Gates(ctx context.Context, m *model.Model) (gpus.Gates, error) {
	driver, err := b.Driver()
	if err != nil {
		return nil, err
	}
	return orNone[gpus.Gates](cuda.OpenGates(ctx, m, driver, b.Images, 0))
}

// orNone returns what was opened; on an error, the interface that is nil.
func orNone[T any](opened T, err error) (none T, _ error) {
	if err != nil {
		return none, err
	}
	return opened, nil
}
