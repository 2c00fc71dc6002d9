package train

import (
	"github.com/switchyard/switchyard/loadtest/train/networks"
	"github.com/switchyard/switchyard/pkg/compute/predictors"
	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// trained is what came of a unit.
type trained struct {
	tuned    *predict.Tuned // nil: the gate is reused
	measured []predictors.Accuracy
}

// train fine-tunes a unit as far as it needs, trains ProMoE's network, and measures
// all methods on the test rows. Those play no part in any choice.
func (t *trainer) train(u unit, s networks.Settings) (r trained, err error) {
	learn, validation := t.examples(u, t.parts.learn), t.examples(u, t.parts.validation)
	alone, best, err := t.tune(u, learn, validation, s)
	if err != nil {
		return r, err
	}
	p := predictorsOf{alone: alone, best: best}
	for _, width := range t.Networks {
		network, err := networks.Network(learn, validation, width, s)
		if err != nil {
			return r, err
		}
		p.networks = append(p.networks, network)
	}
	r.tuned = best
	r.measured, err = t.measure(u, learn, p)
	return r, err
}

// predictorsOf a unit: the fine-tuned copy alone, what is kept, and ProMoE's.
type predictorsOf struct {
	alone, best *predict.Tuned
	networks    []predict.Network
}

// worthwhile is by how much an adapter must be more accurate than what is smaller.
const worthwhile = 0.002

// tune goes from the gate as it is to the copy alone and to copies with adapters,
// until one reaches the threshold on the validation rows; the best of them is
// kept, nil for the gate as it is. alone is nil where the copy is no better than
// the gate, or none is needed.
func (t *trainer) tune(u unit, learn, validation *networks.Examples, s networks.Settings) (alone, best *predict.Tuned, err error) {
	gate := t.gates.Layers[u.target]
	accuracy := networks.Accuracy(validation, predict.Tuned{Gate: gate})
	if accuracy >= t.Threshold {
		return nil, nil, nil
	}
	keep := func(tuned predict.Tuned, gain float64) {
		predictors.Round(tuned)
		if reached := networks.Accuracy(validation, tuned); reached > accuracy+gain {
			accuracy, best = reached, &tuned
		}
	}
	tuned, err := networks.Gate(learn, validation, gate, s)
	if err != nil {
		return nil, nil, err
	}
	keep(tuned, 0)
	alone = best
	for _, width := range t.Adapters {
		if accuracy >= t.Threshold {
			break
		}
		tuned, err := networks.Adapt(learn, validation, gate, width, s)
		if err != nil {
			return nil, nil, err
		}
		keep(tuned, worthwhile)
	}
	return alone, best, nil
}
