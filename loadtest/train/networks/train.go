package networks

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
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
			l.learn(&b, s.Rate*0.5*float32(1+math.Cos(math.Pi*float64(steps)/float64(all))))
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

func learning(n *predict.Network, inputs int) *network {
	return &network{d: inputs, e: len(n.B2), h: n.Width, w1: NewAdam(n.W1), b1: NewAdam(n.B1), w2: NewAdam(n.W2), b2: NewAdam(n.B2)}
}

// Adam are weights with the moments of their gradients (Kingma and Ba 2015,
// algorithm 1).
type Adam struct {
	W     []float32
	m, v  []float32
	Grad  []float32 // of the batch at hand
	steps int
}

const (
	beta1, beta2 = 0.9, 0.999
	tiny         = 1e-8
)

// NewAdam begins with weights, which it changes.
func NewAdam(w []float32) *Adam {
	n := len(w)
	return &Adam{W: w, m: make([]float32, n), v: make([]float32, n), Grad: make([]float32, n)}
}

// Step goes against the gradient.
func (a *Adam) Step(rate float32) {
	a.steps++
	correction := math.Sqrt(1-math.Pow(beta2, float64(a.steps))) / (1 - math.Pow(beta1, float64(a.steps)))
	scale := rate * float32(correction)
	for i, g := range a.Grad {
		a.m[i] = beta1*a.m[i] + (1-beta1)*g
		a.v[i] = beta2*a.v[i] + (1-beta2)*g*g
		a.W[i] -= scale * a.m[i] / (float32(math.Sqrt(float64(a.v[i]))) + tiny)
	}
}

// State is the weights and both moments, one behind the other, and the steps so far.
func (a *Adam) State() ([]float32, int) { return slices.Concat(a.W, a.m, a.v), a.steps }

// Restore goes on from what State was, of as many weights.
func (a *Adam) Restore(state []float32, steps int) {
	n := len(a.W)
	copy(a.W, state[:n])
	copy(a.m, state[n:2*n])
	copy(a.v, state[2*n:])
	a.steps = steps
}

// Examples are what the predictor of one target layer learns from, by row.
type Examples struct {
	Hidden, Experts, TopK int       // D, E, k
	X                     []float32 // (R, D): gate inputs of the layer that it predicts from
	Wide                  []float32 // (R, D+E): what predict.Source makes of X, for adapters
	Chosen                []int32   // (R, k): what the target's gate chose
	Soft                  []float32 // (R, E): the target gate's probabilities
}

// Rows is R.
func (e *Examples) Rows() int { return len(e.Chosen) / e.TopK }

// batch is a few examples in an order of their own.
type batch struct {
	rows            int
	x, wide, target []float32 // (rows, D), (rows, D+E), (rows, E)
}

// take fills b with the examples of an order.
func (b *batch) take(e *Examples, order []int, softness float32) {
	b.rows, b.x, b.wide, b.target = len(order), b.x[:0], b.wide[:0], b.target[:0]
	width := e.Hidden + e.Experts
	for _, i := range order {
		b.x = append(b.x, e.X[i*e.Hidden:(i+1)*e.Hidden]...)
		b.wide = append(b.wide, e.Wide[i*width:(i+1)*width]...)
		b.target = append(b.target, e.Soft[i*e.Experts:(i+1)*e.Experts]...)
		row := b.target[len(b.target)-e.Experts:]
		cpu.Scale(row, softness)
		for _, c := range e.Chosen[i*e.TopK : (i+1)*e.TopK] {
			row[c] += (1 - softness) / float32(e.TopK)
		}
	}
}

// deal deals all rows out to batches, in an order that seed and pass say.
func (s *Settings) deal(rows, pass int, each func(order []int)) {
	all := rand.New(rand.NewPCG(s.Seed, uint64(pass))).Perm(rows)
	for order := range slices.Chunk(all, s.Batch) {
		each(order)
	}
}

// network is predict.Network while it learns.
type network struct {
	d, e, h        int       // D is of its own inputs
	w1, b1, w2, b2 *Adam     // (H, D), (H), (E, H), (E)
	inner, back    []float32 // (rows, H): after relu; the gradient of it
	turned         []float32
}

// newNetwork draws the inner layer at random (He et al. 2015). The outer one is
// drawn too, or zero for an adapter, which adds nothing at first.
func newNetwork(d, e, h int, seed uint64, adapter bool) *network {
	r := rand.New(rand.NewPCG(seed, uint64(h)))
	random := func(n, inputs int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(r.NormFloat64() * math.Sqrt(2/float64(inputs)))
		}
		return w
	}
	n := &network{d: d, e: e, h: h, w1: NewAdam(random(h*d, d)), w2: NewAdam(random(e*h, h))}
	n.b1, n.b2 = NewAdam(make([]float32, h)), NewAdam(make([]float32, e))
	if adapter {
		clear(n.w2.W)
	}
	return n
}

// forward is out (rows, E) of x (rows, D).
func (n *network) forward(out, x []float32, rows int) {
	n.inner = reuse.Slice(n.inner, rows*n.h)
	multiply(n.inner, x, rows, cpu.PackF32(n.w1.W, n.h, n.d))
	for r := range rows {
		row := n.inner[r*n.h : (r+1)*n.h]
		cpu.Add(row, n.b1.W)
		for i, v := range row {
			row[i] = max(v, 0)
		}
	}
	multiply(out, n.inner, rows, cpu.PackF32(n.w2.W, n.e, n.h))
	for r := range rows {
		cpu.Add(out[r*n.e:(r+1)*n.e], n.b2.W)
	}
}

// backward makes the gradients from that of the scores (rows, E), also as (E,
// rows), and the inputs x (rows, D).
func (n *network) backward(scores, turned, x []float32, rows int) {
	multiply(n.w2.Grad, turned, n.e, cpu.PackColumns(n.inner, n.h, rows))
	n.back = reuse.Slice(n.back, rows*n.h)
	multiply(n.back, scores, rows, cpu.PackColumns(n.w2.W, n.h, n.e))
	for i, v := range n.inner {
		if v <= 0 {
			n.back[i] = 0
		}
	}
	n.turned = transposed(n.turned, n.back, rows, n.h)
	multiply(n.w1.Grad, n.turned, n.h, cpu.PackColumns(x, n.d, rows))
	sumRows(n.b1.Grad, n.back)
	sumRows(n.b2.Grad, scores)
}

func (n *network) step(rate float32) {
	for _, a := range []*Adam{n.w1, n.b1, n.w2, n.b2} {
		a.Step(rate)
	}
}

// sumRows is dst (N) = the sum of the rows of x (rows, N).
func sumRows(dst, x []float32) {
	clear(dst)
	for ; len(x) > 0; x = x[len(dst):] {
		cpu.Add(dst, x[:len(dst)])
	}
}

// learner is a predictor of one layer that learns: a gate, a network, or both,
// whose scores are added.
type learner struct {
	d, e    int
	gate    *Adam    // (E, D), or nil
	network *network // or nil
	adapts  bool     // the network takes wide inputs
	scores  []float32
	more    []float32
	turned  []float32
}

// result are the weights of a learner.
type result struct {
	gate    []float32
	network *predict.Network
}

// score fills scores (rows, E) for x (rows, D), and wide (rows, D+E) of the same.
func (l *learner) score(x, wide []float32, rows int) {
	l.scores, l.more = reuse.Slice(l.scores, rows*l.e), reuse.Slice(l.more, rows*l.e)
	clear(l.scores)
	if l.gate != nil {
		multiply(l.scores, x, rows, cpu.PackF32(l.gate.W, l.e, l.d))
	}
	if l.network != nil {
		l.network.forward(l.more, l.inputs(x, wide), rows)
		cpu.Add(l.scores, l.more)
	}
}

func (l *learner) inputs(x, wide []float32) []float32 {
	if l.adapts {
		return wide
	}
	return x
}

// learn takes one step by a batch.
func (l *learner) learn(b *batch, rate float32) {
	l.score(b.x, b.wide, b.rows)
	lossGradient(l.scores, b.target, b.rows, l.e)
	l.turned = transposed(l.turned, l.scores, b.rows, l.e)
	if l.gate != nil {
		multiply(l.gate.Grad, l.turned, l.e, cpu.PackColumns(b.x, l.d, b.rows))
		l.gate.Step(rate)
	}
	if l.network != nil {
		l.network.backward(l.scores, l.turned, l.inputs(b.x, b.wide), b.rows)
		l.network.step(rate)
	}
}

// weights are a copy of what it has learnt.
func (l *learner) weights() (r result) {
	if l.gate != nil {
		r.gate = slices.Clone(l.gate.W)
	}
	if n := l.network; n != nil {
		r.network = &predict.Network{
			Width: n.h, W1: slices.Clone(n.w1.W), B1: slices.Clone(n.b1.W), W2: slices.Clone(n.w2.W), B2: slices.Clone(n.b2.W),
		}
	}
	return r
}

// lossGradient turns scores (rows, E) into the gradient of the mean cross-entropy
// of their softmax with target.
func lossGradient(scores, target []float32, rows, e int) {
	for r := range rows {
		row := scores[r*e : (r+1)*e]
		cpu.Softmax(row)
		for i, t := range target[r*e : (r+1)*e] {
			row[i] = (row[i] - t) / float32(rows)
		}
	}
}

// multiply is dst (rows, N) = x (rows, K) · wᵀ.
func multiply(dst, x []float32, rows int, w *cpu.Matrix) {
	cpu.MatMul(dst, w.N, x, w.K, rows, w, 0, w.Panels())
}

// transposed is x (rows, n) as (n, rows), in dst if it is large enough.
func transposed(dst, x []float32, rows, n int) []float32 {
	dst = reuse.Slice(dst, rows*n)
	for r := range rows {
		for i, v := range x[r*n : (r+1)*n] {
			dst[i*rows+r] = v
		}
	}
	return dst
}
