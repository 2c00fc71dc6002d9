package predictor

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
)

// Config is what an operator sets.
type Config struct {
	// Distance is how many layers ahead loads are predicted.
	Distance int
	// Weights is a file of trained gates; empty: the model's own gates are reused.
	Weights string
}

// Check refuses what the model makes impossible, and weights that are not its own.
func (c Config) Check(m *model.Model) error {
	if n := len(m.Spec.Layer); c.Distance < 1 || c.Distance >= n {
		return fmt.Errorf("--distance is %d; with the %d layers of model %s it must be 1 to %d", c.Distance, n, m.Name, n-1)
	}
	if c.Weights == "" {
		return nil
	}
	if _, err := predictors.For(m, c.Weights, c.Distance); err != nil {
		return fmt.Errorf("--weights: %w", err)
	}
	return nil
}
