package expert

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// followGPU watches the host's GPU, where it says something of itself, until stop is
// called: if it is lost, the device is.
func (s *Service) followGPU(ctx context.Context) (stop func()) {
	d, computes := s.device.(*cuda.Device)
	if !computes {
		return func() {}
	}
	return s.config.GPU.Follow(ctx, s.d.Logger, s.d.Telemetry.Metrics.GPUs, d.Lose)
}

// deviceFailed is closed when the host has lost its device. It hands nothing over
// then: each row that waits for it is late already, and who hears its farewell sends
// rows elsewhere at once.
func (s *Service) deviceFailed() <-chan struct{} {
	if f, ok := s.device.(device.Failer); ok {
		return f.Failed()
	}
	return nil
}

func (s *Service) deviceError() error {
	if f, ok := s.device.(device.Failer); ok && f.Err() != nil {
		return &gpus.Error{Err: fmt.Errorf("%s: %w", s.device.Name(), f.Err())}
	}
	return nil
}

// closeDevice waits for loads, unless the device is somebody else's.
func (s *Service) closeDevice() {
	if s.config.Device == nil {
		s.device.Close()
	}
}
