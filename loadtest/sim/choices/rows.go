package choices

import (
	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Choices hands over what each row of a text chooses, layer by layer and in each
// the rows in order. The slice is the callee's for the call only.
func (g *Generator) Choices(t routing.Text, give func(layer, row int, experts []uint16)) {
	if g.even {
		g.deal(t, give)
		return
	}
	w := g.writer(t)
	for l := range g.Layers {
		w.layer(l, give)
	}
}

// deal gives experts out in turn, so that all have equally many rows.
func (g *Generator) deal(t routing.Text, give func(layer, row int, experts []uint16)) {
	experts := make([]uint16, g.TopK)
	first := int(splitmix.Mix(t.ID) % uint64(g.Experts))
	for l := range g.Layers {
		for r := range t.Rows {
			for s := range experts {
				experts[s] = uint16((first + r*g.TopK + s) % g.Experts)
			}
			give(l, r, experts)
		}
	}
}

// writer routes one text.
type writer struct {
	*Generator
	routing.Text
	seed   uint64
	tables []table // of its topic, for each layer
	// points are where in the tables each row's choices lie, for the layer before.
	points  []uint16
	experts []uint16
}

func (g *Generator) writer(t routing.Text) *writer {
	seed := splitmix.Mix(g.seed ^ splitmix.Mix(t.ID+1))
	topic := (t.Domain%g.domains)*routing.Topics + int(seed>>32%routing.Topics)
	return &writer{
		Generator: g, Text: t, seed: seed, tables: g.tables[topic*g.Layers : (topic+1)*g.Layers],
		points: make([]uint16, t.Rows*g.TopK), experts: make([]uint16, g.TopK),
	}
}

// layer routes all rows of the text in one layer.
func (w *writer) layer(l int, give func(layer, row int, experts []uint16)) {
	state, table := splitmix.Mix(w.seed+uint64(l)), &w.tables[l]
	like, keep := threshold(w.params[l].Neighbour), threshold(w.params[l].Layer)
	if l == 0 {
		keep = 0 // there is no layer before
	}
	var before []uint16
	for r := range w.Rows {
		points := w.points[r*w.TopK : (r+1)*w.TopK]
		bits := splitmix.Next(&state)
		if before != nil && uint32(bits) < like {
			copy(points, before) // and w.experts are still that row's
		} else {
			w.choose(points, table, &state, uint32(bits>>32) < keep)
		}
		before = points
		give(l, r, w.experts)
	}
}

// choose draws different experts of the row, at the points of the layer before if
// those are kept and differ here too.
func (w *writer) choose(points []uint16, table *table, state *uint64, keep bool) {
	for s := range points {
		if !keep {
			points[s] = point(state)
		}
		for tries := 0; w.taken(s, table[points[s]]); tries++ {
			if tries == mostTries {
				w.rest(s)
				return
			}
			points[s] = point(state)
		}
		w.experts[s] = table[points[s]]
	}
}

// mostTries is after how many draws the popular experts count as all taken.
const mostTries = 64

// rest gives the slots from one on the first experts that no other slot has.
func (w *writer) rest(from int) {
	for s := from; s < w.TopK; s++ {
		e := uint16(0)
		for w.taken(s, e) {
			e++
		}
		w.experts[s] = e
	}
}

// taken reports whether an earlier slot has the expert.
func (w *writer) taken(slot int, expert uint16) bool {
	for _, e := range w.experts[:slot] {
		if e == expert {
			return true
		}
	}
	return false
}

func point(state *uint64) uint16 { return uint16(splitmix.Next(state) >> (64 - tableBits)) }

// threshold is what 32 random bits are below with a probability.
func threshold(p float64) uint32 { return uint32(min(p, 1) * (1<<32 - 1)) }
