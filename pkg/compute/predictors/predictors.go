package predictors

import (
	"fmt"

	"github.com/switchyard/switchyard/models"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// GatesOf reads the gates of a model.
func GatesOf(m *model.Model) (predict.Gates, error) {
	g := predict.Gates{Hidden: m.Spec.Hidden, Experts: m.Spec.Experts, TopK: m.Spec.TopK, Layers: make([][]float32, m.Spec.Layers)}
	for l, spec := range m.Spec.Layer {
		if !spec.MoE {
			continue
		}
		var err error
		if g.Layers[l], err = m.Floats(model.Ref{Role: model.Router, Layer: l}); err != nil {
			return g, fmt.Errorf("reading the gates: %w", err)
		}
	}
	return g, g.Check()
}

// For is MoEless's predictor of a model for a distance, with the weights of the
// file at path. Without a path, the demo model has those of this binary, and other
// models reuse their own gates.
func For(m *model.Model, path string, distance int) (*predict.Gate, error) {
	g, err := GatesOf(m)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return builtIn(m, g, distance)
	}
	w, err := Open(path)
	if err != nil {
		return nil, err
	}
	p, err := w.For(m.Hash, g, distance)
	if err != nil {
		return nil, fmt.Errorf("predictor weights %s: %w", path, err)
	}
	return p, nil
}

func builtIn(m *model.Model, g predict.Gates, distance int) (*predict.Gate, error) {
	if len(models.DemoPredictor) == 0 {
		return predict.Reused(g, distance)
	}
	w, err := Parse(models.DemoPredictor)
	if err != nil {
		return nil, fmt.Errorf("reading the demo model's predictor weights: %w", err)
	}
	if w.Model != m.Hash || !w.has(distance) {
		return predict.Reused(g, distance)
	}
	return w.For(m.Hash, g, distance)
}

// For returns the predictor with these weights, for the model that they were made for.
func (w *Weights) For(hash string, g predict.Gates, distance int) (*predict.Gate, error) {
	if w.Model != hash {
		return nil, fmt.Errorf("they were trained for the model with hash %.12s, not %.12s; train others with switchyard train-predictor", w.Model, hash)
	}
	if !w.has(distance) {
		return nil, fmt.Errorf("they are not for distance %d; train them anew, or choose another distance", distance)
	}
	return predict.LayerAware(g, distance, w.Tuned[distance])
}

// has reports whether a distance was trained, even if no layer needed tuning.
func (w *Weights) has(distance int) bool {
	for _, a := range w.Measured {
		if a.Distance == distance {
			return true
		}
	}
	return w.Tuned[distance] != nil
}
