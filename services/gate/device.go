package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// load brings the gates' weights to what computes with them.
func (s *Service) load(ctx context.Context) error {
	return s.d.LoadWeights(ctx, "loading the gates", func(m *model.Model) (err error) {
		if s.config.United != "" {
			if s.obeys.set, err = united.OpenAll(s.config.United, m); err != nil {
				return fmt.Errorf("--united: %w", err)
			}
		}
		if s.config.GPU != nil {
			return s.loadOnGPU(ctx, m)
		}
		s.gates, err = forward.LoadRouter(m, s.d.Pool)
		return err
	})
}

func (s *Service) loadOnGPU(ctx context.Context, m *model.Model) error {
	on, err := s.config.GPU.Gates(ctx, m)
	if err != nil {
		return err
	}
	s.gates, s.gpu = on, on
	s.presence.Fill = func(stats map[string]float64) { maps.Copy(stats, s.config.GPU.Figures()) }
	return nil
}

// awaitLoss returns when the GPU is lost, or ctx ends.
func (s *Service) awaitLoss(ctx context.Context) {
	var lost <-chan struct{}
	if s.gpu != nil {
		lost = s.gpu.Failed()
	}
	select {
	case <-ctx.Done():
	case <-lost:
	}
}

// lostGPU is why the gate leaves, if that is its GPU.
func (s *Service) lostGPU() error {
	if s.gpu == nil || s.gpu.Err() == nil {
		return nil
	}
	return &gpus.Error{Err: fmt.Errorf("the gate's GPU %s: %w", s.config.GPU.Info.Name, s.gpu.Err())}
}

// ofDevice says whether a device has failed, through no fault of the rows.
func ofDevice(err error) bool {
	var device *forward.DeviceError
	return errors.As(err, &device)
}
