package gpus

import (
	"context"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/device"
	on "github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// Experts opens the GPU for a model's routed experts, whose rows have this wire's type.
// It fails with *Error.
func (g *GPU) Experts(m *model.Model, w tensor.Wire, s device.Settings) (*on.Device, error) {
	return opened(g, func(driver cuda.Driver) (*on.Device, error) {
		return on.Open(m, driver, g.Images, on.Settings{Settings: s, Memory: int64(g.Memory), Parts: Parts(w), Kernels: g.Kernels})
	})
}

// Steps is what attention on a GPU is opened for.
type Steps struct {
	Wire tensor.Wire
	// Positions bounds a sequence, Rows a step, Lanes how many steps compute at a time.
	Positions, Rows, Lanes int
	// Ungraphed is told once why launches go one by one from now on; nil: nobody is.
	Ungraphed func(why error)
}

// Attention opens the GPU for a model's backbone. It fails with *Error.
func (g *GPU) Attention(ctx context.Context, m *model.Model, p *pool.Pool, s Steps) (*on.Backbone, error) {
	return opened(g, func(driver cuda.Driver) (*on.Backbone, error) {
		return on.OpenBackbone(ctx, m, p, driver, g.Images, on.BackboneSettings{
			Memory: int64(g.Memory), Parts: Parts(s.Wire), Positions: s.Positions, Rows: s.Rows, Lanes: s.Lanes,
			Ungraphed: s.Ungraphed,
		})
	})
}

// Gates opens the GPU for a model's gates. It fails with *Error.
func (g *GPU) Gates(ctx context.Context, m *model.Model) (*on.Gates, error) {
	return opened(g, func(driver cuda.Driver) (*on.Gates, error) { return on.OpenGates(ctx, m, driver, g.Images, 0) })
}

// opened is what open makes of the GPU's driver.
func opened[T any](g *GPU, open func(cuda.Driver) (*T, error)) (*T, error) {
	driver, err := g.Open()
	if err != nil {
		return nil, &Error{Err: err}
	}
	made, err := open(driver)
	if err != nil {
		return nil, &Error{Err: err}
	}
	return made, nil
}
