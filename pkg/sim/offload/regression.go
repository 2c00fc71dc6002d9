package offload

import "math"

// head tells weights apart: by how far ahead they look, and whether gates or only embeddings
// are known.
type head struct {
	prefill bool
	ahead   int // 0 is the next step
	blind   bool
}

type weights struct {
	w, square [inputs]float64
}

// guess is what was said of a row's experts in a layer.
type guess struct {
	row  Row
	of   *weights
	in   []float64 // (experts, inputs)
	said []float64 // (experts)
}

func (w *weights) say(in []float64) float64 {
	sum := 0.0
	for i, v := range in {
		sum += w.w[i] * v
	}
	return 1 / (1 + math.Exp(-sum))
}

// teach moves weights towards what was chosen.
func (c *calibrated) teach(g guess, chosen []uint16) {
	for e, p := range g.said {
		used := 0.0
		for _, one := range chosen {
			if int(one) == e {
				used = 1
			}
		}
		off := p - used
		for i, v := range g.in[e*inputs : (e+1)*inputs] {
			d := off * v
			g.of.square[i] += d * d
			g.of.w[i] -= learning * d / math.Sqrt(g.of.square[i]+1e-8)
		}
	}
}

// chances are those that any row uses an expert.
func (c *calibrated) chances(rows []Row, each float64, layer, target int, keep func(guess)) []float32 {
	n := c.w.Experts
	none, told := make([]float64, n), make([]float32, n)
	for e := range none {
		none[e] = 1
	}
	for _, r := range rows {
		g := c.guess(r, layer, target)
		for e, p := range g.said {
			none[e] *= 1 - p
		}
		if keep != nil {
			keep(g)
		}
	}
	for e, p := range none {
		if each > 1 {
			p = math.Pow(p, each)
		}
		told[e] = float32(1 - p)
	}
	return told
}

func logs(row []float32, to int, in func(e, i int) *float64) {
	for e, p := range row {
		*in(e, to) = math.Log(float64(p) + leastChance)
	}
}

// mapInputs are what the map says that was found for a text's query.
func (c *calibrated) mapInputs(text, layer, target int, in func(e, i int) *float64) {
	if target == layer {
		return
	}
	row := make([]float32, c.w.Experts)
	for _, found := range c.steps[c.step] {
		match := found.semantic
		if layer >= 0 {
			match = found.layers[layer]
		}
		if found.text == text && match.Index >= 0 && c.store.RowInto(row, match.Index, target+1) {
			logs(row, inMap, in)
			if layer >= 0 && found.semantic.Index >= 0 && c.store.RowInto(row, found.semantic.Index, target+1) {
				logs(row, inSemantic, in)
			}
			return
		}
	}
}

func (c *calibrated) head(h head) *weights {
	if h.ahead > 0 && h.blind {
		h.ahead = 1 // nothing of this step is known, however far it is
	}
	if c.heads[h] == nil {
		one := &weights{}
		one.w[inRate] = 1 // to begin with experts have their rates
		c.heads[h] = one
	}
	return c.heads[h]
}
