package expert

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
)

// followGPU watches the host's GPU, where it says something of itself, until stop is
// called: if it is lost, the device is.
func (s *Service) followGPU(ctx context.Context) (stop func()) {
	d, computes := s.device.(*cuda.Device)
	if !computes {
		return func() {}
	}
	return s.config.GPU.Follow(ctx, s.d.Logger, s.metrics.GPUs, d.Lose)
}
