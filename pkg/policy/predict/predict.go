package predict

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/kernels/cpu"
)

// Predictor estimates loads. Predict may be called by several goroutines.
type Predictor interface {
	// Method is one of the names below.
	Method() string
	// Distance is how many layers ahead it predicts.
	Distance() int
	// Target is the layer whose loads follow from the gate inputs of layer, and
	// whether there is one.
	Target(layer int) (target int, ok bool)
	// Predict fills load (E) with the routed rows that each expert of the target
	// will probably get, for x (R, D), the gate inputs of layer. They sum to R·k.
	// It is false, and load is left alone, where Target has none.
	Predict(layer int, x []float32, rows int, load []float64) bool
	// Bytes is the memory of the predictor's weights.
	Bytes() int64
}

// Ranker is a Predictor that ranks experts for each row.
type Ranker interface {
	Predictor
	// Scores fills scores (R, E): the higher, the likelier the row's expert.
	Scores(layer int, x []float32, rows int, scores []float32) bool
}

// The names of methods.
const (
	MethodMoEless = "moeless"
	MethodReused  = "reused"
	MethodProMoE  = "promoe"
	MethodHistory = "history"
	MethodOracle  = "oracle"
)

// Gates are the gates of a model.
type Gates struct {
	Hidden, Experts, TopK int // D, E, k
	// Layers are the gates' weights (E, D), row-major; nil is a layer without experts.
	Layers [][]float32
}

// Check says what does not fit together.
func (g Gates) Check() error {
	if g.Hidden < 1 || g.TopK < 1 || g.TopK > g.Experts {
		return fmt.Errorf("gates have %d inputs, %d experts and choose %d; each must be 1 or more, and no more chosen than there are", g.Hidden, g.Experts, g.TopK)
	}
	for l, w := range g.Layers {
		if w != nil && len(w) != g.Experts*g.Hidden {
			return fmt.Errorf("the gate of layer %d has %d weights; (%d, %d) are expected", l, len(w), g.Experts, g.Hidden)
		}
	}
	return nil
}

// target is the layer that distance names from layer, if both have gates.
func (g Gates) target(layer, distance int) (int, bool) {
	target := layer + distance
	ok := layer >= 0 && distance > 0 && layer < len(g.Layers) && target < len(g.Layers) && target > layer &&
		g.Layers[layer] != nil && g.Layers[target] != nil
	return target, ok
}

// Sources are the layers from which distance reaches a layer with experts, ascending.
func (g Gates) Sources(distance int) (layers []int) {
	for l := range g.Layers {
		if _, ok := g.target(l, distance); ok {
			layers = append(layers, l)
		}
	}
	return layers
}

func (g Gates) checkDistance(distance int) error {
	if distance < 1 || distance >= len(g.Layers) {
		return fmt.Errorf("distance is %d; with %d layers it must be 1 to %d", distance, len(g.Layers), len(g.Layers)-1)
	}
	return g.Check()
}

// base is what all predictors have.
type base struct {
	method   string
	distance int
	gates    Gates
	scratch  *sync.Pool // of *scratch
}

// scratch is what counting a batch's choices needs.
type scratch struct {
	scores []float32 // (R, E)
	ids    []int32   // (k)
	vals   []float32 // (k)
}

func newBase(method string, g Gates, distance int) base {
	return base{method, distance, g, &sync.Pool{New: func() any { return &scratch{} }}}
}

// Method is the predictor's name.
func (b *base) Method() string { return b.method }

// Distance is how many layers ahead it predicts.
func (b *base) Distance() int { return b.distance }

// Target is the layer that is predicted from inputs of layer.
func (b *base) Target(layer int) (int, bool) { return b.gates.target(layer, b.distance) }

// checkTargets refuses weights for layers that nothing is predicted for.
func (b *base) checkTargets(targets []int) error {
	for _, t := range targets {
		if _, ok := b.Target(t - b.distance); !ok {
			return fmt.Errorf("there are weights to predict layer %d from %d layers before it; one of the two has no gate", t, b.distance)
		}
	}
	return nil
}

// count fills load with how often each expert is among a row's k highest.
func (b *base) count(r Ranker, layer int, x []float32, rows int, load []float64) bool {
	s, ok := b.scratch.Get().(*scratch)
	if !ok {
		s = &scratch{}
	}
	defer b.scratch.Put(s)
	g := b.gates
	s.scores = reuse.Slice(s.scores, rows*g.Experts)
	s.ids, s.vals = reuse.Slice(s.ids, g.TopK), reuse.Slice(s.vals, g.TopK)
	if !r.Scores(layer, x, rows, s.scores) {
		return false
	}
	clear(load[:g.Experts])
	for i := range rows {
		cpu.TopK(s.ids, s.vals, s.scores[i*g.Experts:(i+1)*g.Experts])
		for _, e := range s.ids {
			load[e]++
		}
	}
	return true
}

// Hits counts, of the experts that gates chose for rows, chosen (R, k), those that
// are among the k highest of the row's scores (R, E): accuracy is their share.
func Hits(scores []float32, chosen []int32, experts, k int) (hits int) {
	ids, vals := make([]int32, k), make([]float32, k)
	for r := range len(chosen) / k {
		cpu.TopK(ids, vals, scores[r*experts:(r+1)*experts])
		for _, e := range chosen[r*k : (r+1)*k] {
			if slices.Contains(ids, e) {
				hits++
			}
		}
	}
	return hits
}

// LoadAccuracy is the share of actual's rows that were predicted for the expert
// that gets them; 1 if there are none. Both sum to the same.
func LoadAccuracy(predicted, actual []float64) float64 {
	right, all := 0.0, 0.0
	for e, a := range actual {
		right += min(predicted[e], a)
		all += a
	}
	if all == 0 {
		return 1
	}
	return right / all
}

// Pearson is the correlation coefficient of two series; 0 if one does not vary.
func Pearson(x, y []float64) float64 {
	n := float64(len(x))
	var sx, sy float64
	for i := range x {
		sx, sy = sx+x[i], sy+y[i]
	}
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-sx/n, y[i]-sy/n
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// Source makes the inputs of adapters for a layer that is predicted from. Behind
// its gate's inputs stand the weights of the experts that this gate chooses: what
// the layer adds to a row depends on them, and a small network could not tell
// them from the inputs alone.
type Source struct {
	gates Gates
	w     *cpu.Matrix // (E, D)
}

// NewSource is that of a layer with a gate.
func NewSource(g Gates, layer int) *Source {
	return &Source{g, cpu.PackF32(g.Layers[layer], g.Experts, g.Hidden)}
}

// Wide is (R, D+E) of x (R, D). The weights of a row's k experts sum to 1, those of
// others are 0.
func (s *Source) Wide(x []float32, rows int) []float32 {
	d, e := s.gates.Hidden, s.gates.Experts
	scores, wide := make([]float32, rows*e), make([]float32, rows*(d+e))
	cpu.MatMul(scores, e, x, d, rows, s.w, 0, s.w.Panels())
	ids, vals := make([]int32, s.gates.TopK), make([]float32, s.gates.TopK)
	for r := range rows {
		row := wide[r*(d+e) : (r+1)*(d+e)]
		copy(row, x[r*d:(r+1)*d])
		cpu.TopK(ids, vals, scores[r*e:(r+1)*e])
		cpu.Softmax(vals)
		for i, id := range ids {
			row[d+int(id)] = vals[i]
		}
	}
	return wide
}

// History predicts the loads of the past: the mean of a window, as EPLB plans by
// it. It looks at no rows.
type History struct {
	base
	window int // batches; 0 is all

	mu     sync.Mutex
	layers []past
}

// past is what a layer's experts got: the sum of the window's batches.
type past struct {
	batches [][]float64 // the newest last; none if the window is all
	sum     []float64   // (E)
}

// NewHistory keeps the last window batches of each layer; 0 keeps all.
func NewHistory(g Gates, distance, window int) (*History, error) {
	if err := g.checkDistance(distance); err != nil {
		return nil, err
	}
	h := &History{base: newBase(MethodHistory, g, distance), window: max(window, 0), layers: make([]past, len(g.Layers))}
	for l := range h.layers {
		h.layers[l].sum = make([]float64, g.Experts)
	}
	return h, nil
}

// Observe takes in a batch's loads (E) of a layer.
func (h *History) Observe(layer int, load []float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := &h.layers[layer]
	p.add(load, 1)
	if h.window == 0 {
		return
	}
	p.batches = append(p.batches, append([]float64(nil), load...))
	if len(p.batches) > h.window {
		p.add(p.batches[0], -1)
		p.batches = p.batches[1:]
	}
}

func (p *past) add(load []float64, sign float64) {
	for e := range p.sum {
		p.sum[e] += sign * load[e]
	}
}

// Predict is the window's distribution for as many rows; even before anything
// was observed.
func (h *History) Predict(layer int, _ []float32, rows int, load []float64) bool {
	target, ok := h.Target(layer)
	if !ok {
		return false
	}
	h.mu.Lock()
	copy(load, h.layers[target].sum)
	h.mu.Unlock()
	spread(load[:h.gates.Experts], float64(rows*h.gates.TopK))
	return true
}

// Scores are the same for each row.
func (h *History) Scores(layer int, _ []float32, rows int, scores []float32) bool {
	load := make([]float64, h.gates.Experts)
	if !h.Predict(layer, nil, 1, load) {
		return false
	}
	for i := range rows * len(load) {
		scores[i] = float32(load[i%len(load)])
	}
	return true
}

// Bytes is the memory of the sums; the window's batches are no weights.
func (h *History) Bytes() int64 { return int64(len(h.layers)) * int64(h.gates.Experts) * 8 }

// spread scales load to a sum; what has none becomes even.
func spread(load []float64, sum float64) {
	have := 0.0
	for _, v := range load {
		have += v
	}
	for e := range load {
		if have > 0 {
			load[e] *= sum / have
		} else {
			load[e] = sum / float64(len(load))
		}
	}
}
