package expert

import (
	"context"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/control/members"
)

// followGPU watches the host's GPU, where it says something of itself, until stop is
// called: its figures are metrics, and if it is lost the device is.
func (s *Service) followGPU(ctx context.Context) (stop func()) {
	d, computes := s.device.(*cuda.Device)
	if !computes || s.config.GPU.Watch == nil {
		return func() {}
	}
	unwatch := s.config.GPU.Watch.Follow(ctx, s.d.Logger, d.Lose)
	untell := s.metrics.GPUs.Follow(s.config.GPU.Info.Index, s.config.GPU.Watch.State)
	return func() {
		untell()
		unwatch()
	}
}

// gpuFigures are what the GPU says of itself, for heartbeats and samples of loads; nil
// without a GPU, or one that says nothing.
func (s *Service) gpuFigures() map[string]float64 {
	if s.config.GPU == nil || s.config.GPU.Watch == nil {
		return nil
	}
	now := s.config.GPU.Watch.State()
	if now.Values == nil {
		return nil
	}
	figures := map[string]float64{members.HostThrottled: 0}
	if now.Avoid {
		figures[members.HostThrottled] = 1
	}
	for name, v := range now.Values {
		figures[string(name)] = v
	}
	return figures
}
