package predict

import "sync"

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
