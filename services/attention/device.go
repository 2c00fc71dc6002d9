package attention

import (
	"context"
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/gpus"
)

// load brings the backbone's weights to what computes with them, and makes its pages.
func (s *Service) load(ctx context.Context) error {
	err := s.d.LoadWeights(ctx, "loading attention's weights", func(m *model.Model) (err error) {
		positions := m.Spec.LongestSequence(s.config.MaxModelLen)
		if s.config.GPU != nil {
			return s.loadOnGPU(ctx, m, positions)
		}
		s.backbone, err = forward.LoadBackbone(m, s.d.Pool, positions)
		return err
	})
	if err != nil {
		return err
	}
	if s.kv, err = s.backbone.NewPool(s.config.MaxRows, s.config.KVBytes); err != nil && s.config.GPU != nil {
		return &gpus.Error{Err: err}
	}
	return err
}

func (s *Service) loadOnGPU(ctx context.Context, m *model.Model, positions int) error {
	on, err := s.config.GPU.Attention(ctx, m, s.d.Pool, gpus.Steps{
		Wire: s.d.Wire, Positions: positions, Rows: s.config.MaxRows, Lanes: s.config.Microbatches,
		Ungraphed: s.ungraphed,
	})
	if err != nil {
		return err
	}
	s.backbone, s.gpu = forward.NewBackbone(&m.Spec, on), on
	return nil
}

// ungraphed says why steps take longer from now on.
func (s *Service) ungraphed(why error) {
	s.d.Logger.Warn("the GPU makes or runs no graphs; from the next step on its launches go one by one", "error", why)
}

// followGPU watches the replica's GPU, where it says something of itself, until stop is
// called: if it is lost, so are the steps on it.
func (s *Service) followGPU(ctx context.Context) (stop func()) {
	if s.gpu == nil {
		return func() {}
	}
	return s.config.GPU.Follow(ctx, s.d.Logger, s.metrics.GPUs, s.gpu.Lose)
}

// mostFailures is how many steps in a row a device may fail before its replica leaves.
const mostFailures = 5

// deviceFailed leaves a step's sequences as they were: their rows are computed again,
// here or, when the device is lost or fails all the time, elsewhere.
func (d *scheduler) deviceFailed(err *forward.DeviceError, rows int) {
	d.failures++
	d.log.Warn("the device failed with a step; its rows are computed again", "rows", rows, "error", err)
	switch {
	case d.broken != nil:
	case err.Lost:
		d.broken = &gpus.Error{Err: err}
	case d.failures == mostFailures:
		d.broken = &gpus.Error{Err: fmt.Errorf("%d steps in a row were not computed: %w", d.failures, err)}
	}
}

// deviceLost ends stepping, whether or not a step is under way that sees it.
func (d *scheduler) deviceLost(why error) {
	if d.broken == nil {
		d.log.Warn("the device is lost; its sequences go to other replicas", "sequences", len(d.sequences), "error", why)
		d.broken = &gpus.Error{Err: why}
	}
}

// ofDevice is the device's part of a step's error; nil: it has none.
func ofDevice(err error) *forward.DeviceError {
	var of *forward.DeviceError
	if errors.As(err, &of) {
		return of
	}
	return nil
}
