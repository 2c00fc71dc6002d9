// Package train makes load predictors for a model from a recording of its gates,
// and measures them beside those that they are compared with.
package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Settings say what is trained.
type Settings struct {
	Model     *model.Model
	Recording *recording.Recording
	Distances int     // 1 up to this
	Threshold float64 // h: gates with less accuracy are fine-tuned
	Adapters  []int   // widths tried where a fine-tuned copy stays below h, in this order
	Networks  []int   // widths of ProMoE's networks, each a method of its own
	Training  networks.Settings
	Threads   int
	// Out is the weights file; what is done so far lies beside it.
	Out string
	// Progress hears what is going on.
	Progress func(format string, args ...any)
}

// Note tells weights of these settings and this recording from others.
func (s *Settings) Note() string {
	t := s.Training
	return fmt.Sprintf("distances to %d, threshold %g, adapters %v, ProMoE's widths %v, passes %d, patience %d, batch %d, rate %g, softness %g, seed %d; recording: %s",
		s.Distances, s.Threshold, s.Adapters, s.Networks, t.Passes, t.Patience, t.Batch, t.Rate, t.Softness, t.Seed, s.Recording.Note)
}

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	r := s.Recording
	switch {
	case r.Model != s.Model.Hash:
		return fmt.Errorf("the recording is of the model with hash %.12s, not %.12s; record this model", r.Model, s.Model.Hash)
	case r.Hidden == 0:
		return errors.New("the recording has no inputs of gates; record without --no-inputs")
	case r.Hidden != s.Model.Spec.Hidden || r.Experts != s.Model.Spec.Experts || r.TopK != s.Model.Spec.TopK:
		return errors.New("the recording's numbers of inputs and experts are not the model's; record it anew")
	case s.Distances < 1:
		return fmt.Errorf("distances go up to %d; at least 1 is wanted", s.Distances)
	case !(s.Threshold >= 0 && s.Threshold <= 1):
		return fmt.Errorf("the threshold is %g; it must be 0 to 1", s.Threshold)
	}
	for _, w := range slices.Concat(s.Adapters, s.Networks) {
		if w < 1 || w > widest {
			return fmt.Errorf("a width is %d; adapters and networks are 1 to %d wide", w, widest)
		}
	}
	if err := s.Training.Check(); err != nil {
		return err
	}
	return s.split().check()
}

// split is the same each time for the same settings.
func (s *Settings) split() split { return splitSequences(s.Recording, s.Training.Seed) }

// widest bounds adapters and networks.
const widest = 1 << 16

// trainer is training on its way.
type trainer struct {
	Settings
	gates predict.Gates
	parts split
	kept  *checkpoint
}

// Run trains every layer for every distance, and leaves the weights in Out. What
// an earlier run of the same settings has done is not done again.
func Run(ctx context.Context, s Settings) (*predictors.Weights, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	gates, err := predictors.GatesOf(s.Model)
	if err != nil {
		return nil, err
	}
	t := &trainer{Settings: s, gates: gates, parts: s.split()}
	if t.kept, err = openCheckpoint(s.Out+".partial", &predictors.Weights{
		Model: s.Model.Hash, Hidden: gates.Hidden, Experts: gates.Experts, Note: s.Note(), Tuned: map[int]map[int]predict.Tuned{},
	}); err != nil {
		return nil, err
	}
	if len(t.units()) == 0 {
		return nil, errors.New("the model has no two layers with experts, one of which could tell of the other")
	}
	if err := t.all(ctx); err != nil {
		return nil, err
	}
	return t.kept.weights, t.finish()
}

// finish gives the checkpoint, which is complete, its name.
func (t *trainer) finish() error {
	if err := t.kept.save(); err != nil {
		return err
	}
	if err := os.Rename(t.kept.path, t.Out); err != nil {
		return fmt.Errorf("writing the weights: %w", err)
	}
	return nil
}

// units are the targets of all distances, those that take longest first.
func (t *trainer) units() (list []unit) {
	for d := min(t.Distances, len(t.gates.Layers)-1); d >= 1; d-- {
		for _, l := range t.gates.Sources(d) {
			list = append(list, unit{d, l, l + d})
		}
	}
	return list
}
