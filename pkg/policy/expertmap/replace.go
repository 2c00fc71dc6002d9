package expertmap

import (
	"cmp"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// add takes in maps of one batch, no more than the capacity.
func (p *part) add(s *Store, owner int32, batch []Map) {
	taken := make([]bool, min(p.Capacity, p.count+len(batch)))
	var all [][]float64 // how redundant each of the batch is, by slot, where that was asked
	for i, m := range batch {
		var alike []float64
		switch full := p.count >= p.Capacity; {
		case p.Replace == SkipRedundant, p.Replace == KCentre && full:
			alike = p.redundancy(s, batch[i:i+1])[0]
		case p.Replace == Redundant && full:
			if all == nil { // slots that change meanwhile are taken
				all = make([][]float64, i, len(batch))
				all = append(all, p.redundancy(s, batch[i:])...)
			}
			alike = all[i]
		}
		slot, ok := p.slotFor(s, alike, taken)
		if !ok {
			s.counts.Skipped++
			continue
		}
		if p.added[slot] > 0 {
			s.counts.Replaced++
		}
		p.put(slot, owner, m)
		p.near.replaced(s, p, slot)
		taken[slot] = true
		s.counts.Added++
	}
}

// slotFor is the slot of a new map that is so redundant with those that are there. It is
// false for a map that is not to be taken.
func (p *part) slotFor(s *Store, alike []float64, taken []bool) (slot int, ok bool) {
	if p.Replace == SkipRedundant {
		if most := p.best(nil, func(a, b int) int { return cmp.Compare(alike[a], alike[b]) }); most >= 0 && float32(alike[most]) >= p.Redundancy {
			return 0, false
		}
	}
	if slot, ok := p.free(); ok {
		return slot, true
	}
	switch p.Replace {
	case Redundant:
		slot = p.best(taken, func(a, b int) int { return cmp.Compare(alike[a], alike[b]) })
	case LeastUseful:
		slot = p.best(taken, func(a, b int) int { return cmp.Compare(p.usefulness(b), p.usefulness(a)) })
	case KCentre:
		slot = p.nearest(s).victim(p, alike, taken)
	default:
		slot = p.best(taken, func(_, _ int) int { return 0 })
	}
	return slot, slot >= 0
}

// best is the slot that comes last by the comparison and is not excluded, of
// equal ones the oldest; -1 if there is none.
func (p *part) best(except []bool, compare func(a, b int) int) int {
	best := -1
	for slot := range p.count {
		if except != nil && except[slot] {
			continue
		}
		if best < 0 || cmp.Or(compare(slot, best), cmp.Compare(p.added[best], p.added[slot])) > 0 {
			best = slot
		}
	}
	return best
}

// usefulness is how often a map was found for each map that came after it.
func (p *part) usefulness(slot int) float64 {
	return float64(1+p.uses[slot]) / float64(1+p.clock-p.added[slot])
}

// redundantRows of a batch are multiplied at once: as many as the kernels take in one
// pass over the maps.
const redundantRows = 12

// redundancy is RDY of each new map with each slot: d/L of the similarity of the
// embeddings and (L−d)/L of that of the whole maps. Without embeddings the latter counts
// alone.
func (p *part) redundancy(s *Store, batch []Map) (all [][]float64) {
	for from := 0; from < len(batch); from += redundantRows {
		all = append(all, p.redundancyOf(s, batch[from:min(from+redundantRows, len(batch))])...)
	}
	return all
}

func (p *part) redundancyOf(s *Store, batch []Map) [][]float64 {
	rows := make([][]float64, len(batch))
	vectors := make([][]float32, len(batch))
	weight := 0.0
	if p.embeddings != nil {
		weight = float64(p.Distance) / float64(p.Layers)
		for i, m := range batch {
			vectors[i] = m.Embedding
		}
		p.products(s.embeddings, p.embeddings, vectors, func(i int, norm float64, dots []float32) {
			rows[i] = make([]float64, p.count)
			for slot := range rows[i] {
				rows[i][slot] = weight * cosine(float64(dots[slot]), norm, float64(p.embeddingNorms[slot]))
			}
		})
	}
	dots, norms := make([][]float64, len(batch)), make([]float64, len(batch))
	for l, t := range p.layers {
		for i, m := range batch {
			vectors[i] = m.Probabilities[l*p.Experts : (l+1)*p.Experts]
		}
		p.products(s.maps, t, vectors, func(i int, norm float64, products []float32) {
			norms[i] += norm
			if dots[i] == nil {
				dots[i] = make([]float64, p.count)
			}
			for slot, dot := range products[:p.count] {
				dots[i][slot] += float64(dot)
			}
		})
	}
	for i := range rows {
		if rows[i] == nil {
			rows[i] = make([]float64, p.count)
		}
		for slot, dot := range dots[i] {
			rows[i][slot] += (1 - weight) * cosine(dot, norms[i], p.whole[slot])
		}
	}
	return rows
}

// products tells of each vector the square of its norm and its products with a table's slots.
func (p *part) products(c codec, t *cpu.Table, vectors [][]float32, tell func(i int, norm float64, dots []float32)) {
	m := t.Matrix()
	x := p.x[:0]
	for _, v := range vectors {
		v, p.encoded = c.held(p.decoded, v, p.encoded)
		x = append(x, v...)
	}
	if len(p.out) < len(vectors)*m.N {
		p.out = make([]float32, redundantRows*m.N)
	}
	out := p.out
	p.x = x
	cpu.MatMul(out, m.N, x, m.K, len(vectors), m, 0, p.panels())
	for i := range vectors {
		v := x[i*m.K : (i+1)*m.K]
		tell(i, float64(cpu.Chain(v, v)), out[i*m.N:(i+1)*m.N])
	}
}
