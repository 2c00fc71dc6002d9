package networks

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/predict"
)

// Settings of training.
type Settings struct {
	Seed     uint64
	Passes   int     // over the examples, at most
	Patience int     // passes without a better validation after which it ends
	Batch    int     // rows of a step
	Rate     float32 // of the first step
	Softness float32 // share of the gate's probabilities in the target
	// Stop, if not nil, is asked after each pass whether to give up.
	Stop func() bool
}

// Default settings.
func Default() Settings {
	return Settings{Seed: 1, Passes: 12, Patience: 4, Batch: 256, Rate: 3e-3, Softness: 0.7}
}

// ErrStopped is the error of training that was given up.
var ErrStopped = errors.New("training was given up")

// Check says what is wrong with settings.
func (s *Settings) Check() error {
	if s.Passes < 1 || s.Patience < 1 || s.Batch < 1 || !(s.Rate > 0) || !(s.Softness >= 0 && s.Softness <= 1) {
		return fmt.Errorf("training has %d passes, patience %d, batches of %d, rate %g and softness %g; the first four must be above 0, and the last 0 to 1",
			s.Passes, s.Patience, s.Batch, s.Rate, s.Softness)
	}
	return nil
}

// Gate fine-tunes the copy of a gate (E, D).
func Gate(learn, validation *Examples, gate []float32, s Settings) (predict.Tuned, error) {
	r, err := s.run(learn, validation, &learner{d: learn.Hidden, e: learn.Experts, gate: NewAdam(slices.Clone(gate))})
	return predict.Tuned{Gate: r.gate}, err
}

// Adapt fine-tunes the copy of a gate together with an adapter of a width.
func Adapt(learn, validation *Examples, gate []float32, width int, s Settings) (predict.Tuned, error) {
	d, e := learn.Hidden, learn.Experts
	l := &learner{d: d, e: e, gate: NewAdam(slices.Clone(gate)), network: newNetwork(d+e, e, width, s.Seed, true), adapts: true}
	r, err := s.run(learn, validation, l)
	return predict.Tuned{Gate: r.gate, Adapter: r.network}, err
}

// Network trains a network of a width from scratch.
func Network(learn, validation *Examples, width int, s Settings) (predict.Network, error) {
	d, e := learn.Hidden, learn.Experts
	r, err := s.run(learn, validation, &learner{d: d, e: e, network: newNetwork(d, e, width, s.Seed, false)})
	if err != nil {
		return predict.Network{}, err
	}
	return *r.network, nil
}

// run passes over the examples and keeps the weights that are best on the validation rows.
func (s *Settings) run(learn, validation *Examples, l *learner) (best result, err error) {
	if err := s.Check(); err != nil {
		return best, err
	}
	if learn.Rows() == 0 || validation.Rows() == 0 {
		return best, errors.New("training needs rows to learn from and others to validate by")
	}
	var b batch
	steps, without := 0, 0
	all := s.Passes * ((learn.Rows() + s.Batch - 1) / s.Batch)
	accuracy := -1.0
	for pass := 0; pass < s.Passes && without < s.Patience; pass++ {
		s.deal(learn.Rows(), pass, func(order []int) {
			b.take(learn, order, s.Softness)
			l.learn(&b, s.rate(steps, all))
			steps++
		})
		without++
		if a := l.accuracy(validation); a > accuracy {
			best, accuracy, without = l.weights(), a, 0
		}
		if s.Stop != nil && s.Stop() {
			return best, ErrStopped
		}
	}
	return best, nil
}

// rate is that of a step of so many.
func (s *Settings) rate(step, of int) float32 {
	return s.Rate * 0.5 * float32(1+math.Cos(math.Pi*float64(step)/float64(of)))
}

// validated is how many rows are scored at once.
const validated = 512

// accuracy is that of predict's first measure.
func (l *learner) accuracy(e *Examples) float64 {
	hits := 0
	for from := 0; from < e.Rows(); from += validated {
		to := min(from+validated, e.Rows())
		width := e.Hidden + e.Experts
		l.score(e.X[from*e.Hidden:to*e.Hidden], e.Wide[from*width:to*width], to-from)
		hits += predict.Hits(l.scores, e.Chosen[from*e.TopK:to*e.TopK], e.Experts, e.TopK)
	}
	return float64(hits) / float64(len(e.Chosen))
}

// Accuracy is that of a gate or a tuned copy on examples.
func Accuracy(e *Examples, t predict.Tuned) float64 {
	l := &learner{d: e.Hidden, e: e.Experts, gate: NewAdam(t.Gate)}
	if n := t.Adapter; n != nil {
		l.adapts = true
		l.network = learning(n, e.Hidden+e.Experts)
	}
	return l.accuracy(e)
}

// learning is a network of so many inputs that could go on learning.
func learning(n *predict.Network, inputs int) *network {
	return &network{d: inputs, e: len(n.B2), h: n.Width, w1: NewAdam(n.W1), b1: NewAdam(n.B1), w2: NewAdam(n.W2), b2: NewAdam(n.B2)}
}
