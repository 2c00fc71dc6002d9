package predictor

import (
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
)

// Config is what an operator sets.
type Config struct {
	// Distance is how many layers ahead loads are predicted.
	Distance int
	// Weights is a file of trained gates; empty: those in this binary for the demo
	// model, and other models' own gates.
	Weights string
	// MaxRate is how many messages with rows are predicted from in a second at most;
	// 0 is all.
	MaxRate int
	// Late holds back what the maps' predictor hears for so long; it is for measuring what a slow one
	// costs.
	Late time.Duration
	// Maps are of the experts that hosts are told they will need; without a capacity they are
	// told nothing.
	Maps Maps
}

// budget is the messages of one period.
func (c Config) budget() int {
	if c.MaxRate == 0 {
		return 0
	}
	return max(1, int(float64(c.MaxRate)*period.Seconds()))
}

// Check refuses what the model makes impossible, and weights that are not its own.
// A model of one layer can be served, and has nothing to predict: that is no reason
// to refuse it here, where all services of a process are checked.
func (c Config) Check(m *model.Model) error {
	if n := len(m.Spec.Layer); c.Distance < 1 || c.Distance >= max(n, 2) {
		return fmt.Errorf("--distance is %d; with the %d layers of model %s it must be 1 to %d", c.Distance, n, m.Name, n-1)
	}
	if c.MaxRate < 0 {
		return fmt.Errorf("--max-rate is %d; it must be 0, which is all, or more", c.MaxRate)
	}
	if err := c.Maps.check(m, c.Distance); err != nil {
		return err
	}
	if c.Weights == "" {
		return nil
	}
	if _, err := predictors.For(m, c.Weights, c.Distance); err != nil {
		return fmt.Errorf("--weights: %w", err)
	}
	return nil
}
