package attention

import (
	"context"
	"errors"
	"fmt"

	kernels "github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// GPU is a CUDA device for attention; each replica opens it for itself.
type GPU struct {
	Info   kernels.Info
	Open   func() (kernels.Driver, error)
	Images kernels.Images
	// Memory is what a replica takes of it, for weights, buffers and pages; 0 is nine
	// tenths of what is free.
	Memory uint64
	// Parts is how many bf16 numbers an element of a row is there: 1 or 2.
	Parts int
}

// DeviceError says that a replica's device cannot be used, or not any more.
type DeviceError struct{ Err error }

func (e *DeviceError) Error() string { return e.Err.Error() }

// Unwrap is what is wrong.
func (e *DeviceError) Unwrap() error { return e.Err }

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
		return &DeviceError{err}
	}
	return err
}

func (s *Service) loadOnGPU(ctx context.Context, m *model.Model, positions int) error {
	g := s.config.GPU
	driver, err := g.Open()
	if err != nil {
		return &DeviceError{err}
	}
	on, err := cuda.OpenBackbone(ctx, m, s.d.Pool, driver, g.Images, cuda.BackboneSettings{
		Memory: int64(g.Memory), Parts: g.Parts, Positions: positions, Rows: s.config.MaxRows, Lanes: s.config.Microbatches,
	})
	if err != nil {
		return &DeviceError{err}
	}
	s.backbone, s.gpu = forward.NewBackbone(&m.Spec, on), on
	return nil
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
		d.broken = &DeviceError{err}
	case d.failures == mostFailures:
		d.broken = &DeviceError{fmt.Errorf("%d steps in a row were not computed: %w", d.failures, err)}
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
