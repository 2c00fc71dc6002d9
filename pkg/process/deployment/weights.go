package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/weights"
)

// loadRetry is the pause before weights that could not be fetched are fetched again.
const loadRetry = 500 * time.Millisecond

// WeightsError is of weights that cannot be loaded from where they are, and do not mend themselves.
type WeightsError struct {
	Doing string // such as "loading the gates"
	Err   error
}

// Error says both.
func (e *WeightsError) Error() string { return e.Doing + ": " + e.Err.Error() }

// Unwrap is the reason.
func (e *WeightsError) Unwrap() error { return e.Err }

// LoadWeights calls load with the model, and calls it again while the object
// store is why it fails: the store may be slow, or the model pushed anew. The end of ctx ends
// it, and another error does, as a *WeightsError.
func (d *Deployment) LoadWeights(ctx context.Context, what string, load func(*model.Model) error) error {
	var said pause.ErrorLog
	for {
		err := load(d.Model.With(ctx))
		if err == nil {
			return nil
		}
		var object *weights.ObjectError
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, err)
		case !errors.As(err, &object):
			return &WeightsError{what, err}
		}
		said.Error(d.Logger, what+" failed; trying again", err)
		if end := pause.For(ctx, loadRetry); end != nil {
			return fmt.Errorf("%s: %w (%w)", what, end, err)
		}
	}
}
