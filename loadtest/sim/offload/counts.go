package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// counts predict by how often requests used each expert, as MoE-Infinity does: the counts of
// the request so far are compared with those of requests that have ended, and the most alike
// one says what comes. The first layers get what was used most by all.
type counts struct {
	w        *Workload
	step     int
	distance int
	grows    bool
	known    [][]float32 // of each request that has ended (layers, experts), of length 1
	uses     []float32   // (layers, experts): of all of these
	popular  []float32   // (layers, experts): parts of a layer's uses
	texts    map[int]*countsOf
}

// countsOf is a request that runs.
type countsOf struct {
	uses []float32 // (layers, experts)
	dots []float32 // with each that is known
}

// newCounts knows requests that have ended before; if it grows, those of the workload too once they
// have ended.
func newCounts(w *Workload, ended []*routing.Rows, distance int, grows bool) *counts {
	size := w.Layers * w.Experts
	c := &counts{w: w, distance: distance, grows: grows, uses: make([]float32, size), popular: make([]float32, size), texts: map[int]*countsOf{}}
	for _, t := range ended {
		one := make([]float32, size)
		for r := range t.N {
			for l := range w.Layers {
				for _, e := range t.Chosen(r, l) {
					one[l*w.Experts+int(e)]++
				}
			}
		}
		c.end(one)
	}
	c.rank()
	return c
}

// end knows one more request, by how often it used each expert.
func (c *counts) end(uses []float32) {
	norm := float32(0)
	for i, v := range uses {
		c.uses[i] += v
		norm += v * v
	}
	norm = float32(math.Sqrt(float64(norm)))
	one := make([]float32, len(uses))
	for i, v := range uses {
		one[i] = v / norm
	}
	c.known = append(c.known, one)
}

func (c *counts) rank() {
	copy(c.popular, c.uses)
	for l := range c.w.Layers {
		share(c.popular[l*c.w.Experts : (l+1)*c.w.Experts])
	}
}

// share makes parts of a sum.
func share(x []float32) {
	sum := float32(0)
	for _, v := range x {
		sum += v
	}
	for i := range x {
		x[i] /= max(sum, 1e-9)
	}
}

func (c *counts) Begin(step int) {
	c.step = step
	for _, t := range c.w.Steps[step].Ended {
		if of := c.texts[t]; of != nil && c.grows {
			c.end(of.uses)
			c.rank()
		}
		delete(c.texts, t)
	}
}

func (c *counts) Look(layer int, give func(Look)) {
	n := c.w.Experts
	if layer < 0 {
		for l := range min(c.distance, c.w.Layers) {
			u := newUnion(n)
			u.most(c.popular[l*n:(l+1)*n], c.w.TopK)
			give(u.look(l))
		}
		return
	}
	for _, r := range c.w.Steps[c.step].Rows {
		c.use(r, layer)
	}
	target := layer + c.distance
	if target >= c.w.Layers {
		return
	}
	u, done := newUnion(n), map[int]bool{}
	for _, r := range c.w.Steps[c.step].Rows {
		if !done[r.Text] {
			done[r.Text] = true
			row := make([]float32, n)
			copy(row, c.match(r.Text)[target*n:])
			share(row)
			u.most(row, c.w.TopK)
		}
	}
	give(u.look(target))
}

// use counts a row's experts of a layer.
func (c *counts) use(r Row, layer int) {
	t := c.texts[r.Text]
	if t == nil {
		t = &countsOf{uses: make([]float32, c.w.Layers*c.w.Experts), dots: make([]float32, len(c.known))}
		c.texts[r.Text] = t
	}
	for _, e := range r.Chosen(r.At, layer) {
		at := layer*c.w.Experts + int(e)
		t.uses[at]++
		for i, one := range c.known {
			t.dots[i] += one[at]
		}
	}
}

// match are the counts of the request that is most alike: all are of length 1, so that the
// largest dot says which.
func (c *counts) match(text int) []float32 {
	best := -1
	for i, d := range c.texts[text].dots {
		if best < 0 || d > c.texts[text].dots[best] {
			best = i
		}
	}
	if best < 0 {
		return c.popular
	}
	return c.known[best]
}
