package expertmap

import (
	"bytes"
	"math"
	"sync/atomic"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Match is the map that was found.
type Match struct {
	// Index is for Store.Row, until the store changes.
	Index int
	// Score is the cosine of both, from -1 to 1.
	Score float32
}

// Search is the search for one row in one step.
type Search struct {
	store  *Store
	tenant string

	told  []int     // the layers that it was told of, ascending, from 0
	probs []float32 // (L, J), as the store holds them
	norm  float64   // the square of the norm of what it was told

	// What it has summed of a part's slots, as of the part's clock.
	part *part
	seen uint64
	sums []sum

	out     []float32 // products with all slots
	row     []float32
	encoded []byte
	stored  []byte
}

// sum is of one slot: over the layers that the search was told of.
type sum struct{ dot, norm float64 }

// Begin is a search among what a tenant may see. It may outlive changes of the store.
func (s *Store) Begin(tenant string) *Search {
	return &Search{
		store: s, tenant: tenant, probs: make([]float32, s.Layers*s.Experts),
		row: make([]float32, max(s.Embedding, s.Experts)),
	}
}

// Reset begins anew, for another row or step.
func (q *Search) Reset() {
	q.told, q.norm = q.told[:0], 0
	clear(q.sums)
	q.seen = 0
	if q.part != nil {
		q.seen = q.part.clock
	}
}

// Embedding finds the map whose embedding is the most similar to a row's; one with the
// same embedding before others. It is false where there is no map, or no such embedding.
func (q *Search) Embedding(e []float32) (Match, bool) {
	p := q.store.parts[q.store.scope(q.tenant)]
	if p == nil || p.count == 0 || p.embeddings == nil || len(e) != p.Embedding || checkEmbedding(e) != nil {
		return Match{}, false
	}
	q.encoded = q.store.embeddings.Encode(q.encoded[:0], e)
	if slot := q.same(p); slot >= 0 {
		return (&found{slot, 1}).match(p)
	}
	held := q.row[:p.Embedding]
	q.store.embeddings.Decode(held, q.encoded)
	q.multiply(p, p.embeddings, held)
	norm := float64(cpu.Chain(held, held))
	best := none
	for slot, dot := range q.out[:p.count] {
		best.offer(p, slot, cosine(float64(dot), norm, float64(p.embeddingNorms[slot])))
	}
	return best.match(p)
}

// same is the newest map with the embedding that was encoded: a token that was there
// before. It is -1 if there is none, or the embedding has no direction, or the checksum
// is also another one's, so that a search has to tell.
func (q *Search) same(p *part) int {
	best, sum := -1, checksum(q.encoded)
	for slot, is := range p.sums[:p.count] {
		if is == sum && (best < 0 || p.added[slot] > p.added[best]) {
			best = slot
		}
	}
	if best < 0 || p.embeddingNorms[best] == 0 {
		return -1
	}
	if q.stored = p.embeddings.AppendRow(q.stored[:0], best); !bytes.Equal(q.stored, q.encoded) {
		return -1
	}
	return best
}

// Layer hears of a row's probabilities at gate l, from 1, and finds the map whose layers
// are the most similar to all that it has heard since Begin. Gates may be left out, but
// come in ascending order. It is false where there is no map or no such gate, and nothing
// is heard if the probabilities cannot be.
func (q *Search) Layer(l int, probs []float32) (Match, bool) {
	s := q.store
	if l < 1 || l > s.Layers || len(probs) != s.Experts || len(q.told) > 0 && q.told[len(q.told)-1] >= l-1 || checkRow(probs, offOne) != nil {
		return Match{}, false
	}
	p := q.sync()
	mine := q.probs[(l-1)*s.Experts : l*s.Experts]
	q.keep(l-1, mine, probs)
	if p == nil || p.count == 0 {
		return Match{}, false
	}
	q.sumUp(p, l-1)
	best := none
	for slot, sum := range q.sums[:p.count] {
		best.offer(p, slot, cosine(sum.dot, q.norm, sum.norm))
	}
	return best.match(p)
}

func (q *Search) keep(layer int, mine, probs []float32) {
	probs, q.encoded = q.store.maps.held(q.row, probs, q.encoded)
	copy(mine, probs)
	q.told = append(q.told, layer)
	q.norm += float64(cpu.Chain(mine, mine))
}

// sync brings the sums to the part as it is now, for the layers that were told of.
func (q *Search) sync() *part {
	p := q.store.parts[q.store.scope(q.tenant)]
	if p == nil {
		q.part, q.seen = nil, 0
		return nil
	}
	for len(q.sums) < p.count {
		q.sums = append(q.sums, sum{})
	}
	switch {
	case p == q.part && p.clock == q.seen:
		return p
	case p != q.part || p.clock-q.seen > rebuildFrom:
		clear(q.sums)
		for _, layer := range q.told {
			q.sumUp(p, layer)
		}
	default:
		for slot := range p.count {
			if p.changed[slot] > q.seen {
				q.sums[slot] = q.sumOf(p, slot)
			}
		}
	}
	q.part, q.seen = p, p.clock
	return p
}

// rebuildFrom changes on all slots are summed anew at once rather than one by one.
const rebuildFrom = 64

// sumOf is a slot's sum over the layers that were told of, with the bits of sumUp.
func (q *Search) sumOf(p *part, slot int) (all sum) {
	row := q.row[:p.Experts]
	for _, layer := range q.told {
		p.layers[layer].Row(row, slot)
		all.dot += float64(cpu.Chain(q.probs[layer*p.Experts:(layer+1)*p.Experts], row))
		all.norm += float64(p.norms[layer][slot])
	}
	return all
}

// sumUp adds a layer to all sums.
func (q *Search) sumUp(p *part, layer int) {
	q.multiply(p, p.layers[layer], q.probs[layer*p.Experts:(layer+1)*p.Experts])
	norms := p.norms[layer][:p.count]
	sums, out := q.sums[:len(norms)], q.out[:len(norms)]
	for slot := range norms {
		sums[slot].dot += float64(out[slot])
		sums[slot].norm += float64(norms[slot])
	}
}

// multiply fills out with the products of v and a table's slots.
func (q *Search) multiply(p *part, t *cpu.Table, v []float32) {
	m := t.Matrix()
	if len(q.out) < m.N {
		q.out = make([]float32, m.N)
	}
	cpu.MatMul(q.out, m.N, v, m.K, 1, m, 0, p.panels())
}

// cosine is of a product and the squares of two norms; 0 where one has no direction.
func cosine(dot, a, b float64) float64 {
	if square := a * b; square > 0 {
		return dot / math.Sqrt(square)
	}
	return 0
}

// found is the best of the slots that it was offered.
type found struct {
	slot  int
	score float64
}

var none = found{-1, math.Inf(-1)}

// offer takes a slot with a higher score, or the same and a newer map.
func (f *found) offer(p *part, slot int, score float64) {
	if score > f.score || score == f.score && p.added[slot] > p.added[f.slot] {
		f.slot, f.score = slot, score
	}
}

// match counts the use of what was found.
func (f *found) match(p *part) (Match, bool) {
	if f.slot < 0 {
		return Match{}, false
	}
	atomic.AddUint32(&p.uses[f.slot], 1)
	return Match{Index: p.place*p.Capacity + f.slot, Score: float32(max(-1, min(1, f.score)))}, true
}
