package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/internal/unrepeated"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/weights"
)

// loadRetry is the pause before weights that could not be fetched are fetched again.
const loadRetry = 500 * time.Millisecond

// LoadWeights calls load with the model, and calls it again while the object
// store is why it fails: the store may be slow, or the model pushed anew. Other
// errors, and the end of ctx, end it.
func (d *Deployment) LoadWeights(ctx context.Context, what string, load func(*model.Model) error) error {
	var said unrepeated.Log
	for {
		err := load(d.Model.With(ctx))
		if err == nil {
			return nil
		}
		var object *weights.ObjectError
		if !errors.As(err, &object) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		said.Error(d.Logger, what+" failed; trying again", err)
		if end := pause.For(ctx, loadRetry); end != nil {
			return fmt.Errorf("%s: %w (%w)", what, end, err)
		}
	}
}
