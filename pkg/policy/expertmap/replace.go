package expertmap

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

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

// Fits refuses maps of another model or shape: ErrForeign.
func (s *Store) Fits(model string, shape Shape) error {
	switch {
	case s.Model != model:
		return fmt.Errorf("%w: they are of the model %.12s, and this is %.12s; build a store of this model's maps", ErrForeign, s.Model, model)
	case s.Shape != shape:
		return fmt.Errorf("%w: they have %s, and this model's have %s; build a store of this model's maps", ErrForeign, s.Shape, shape)
	}
	return nil
}

// String says what maps of the shape are like.
func (s Shape) String() string {
	return fmt.Sprintf("%d layers of %d experts, of which %d are chosen, and embeddings of %d", s.Layers, s.Experts, s.TopK, s.Embedding)
}

// Merge adds all maps of another store of the same model, the oldest first. What of them
// this store has no room for goes by its own rule. An empty store with the other's settings
// becomes what the other was, digest and all, and the other is empty then: so replicas that
// begin with a snapshot go on as the one that wrote it.
func (s *Store) Merge(from *Store) error {
	if err := from.Fits(s.Model, s.Shape); err != nil {
		return err
	}
	if len(s.parts) == 0 && s.Settings == from.Settings {
		s.parts, s.slots, from.parts, from.slots = from.parts, from.slots, s.parts, nil
		return nil
	}
	for tenant, m := range from.All() {
		if err := s.addBatch(tenant, []Map{m}, roughly); err != nil {
			return err
		}
	}
	return nil
}

// All yields each tenant's maps as they are held, the oldest of a tenant first.
func (s *Store) All() func(yield func(tenant string, m Map) bool) {
	return func(yield func(string, Map) bool) {
		for _, scope := range slices.Sorted(maps.Keys(s.parts)) {
			p := s.parts[scope]
			order := make([]int, p.count)
			for i := range order {
				order[i] = i
			}
			slices.SortFunc(order, func(a, b int) int { return cmp.Compare(p.added[a], p.added[b]) })
			for _, slot := range order {
				if !yield(p.owners[p.owner[slot]].name, p.mapIn(slot)) {
					return
				}
			}
		}
	}
}

// Hint is an expert that will probably be needed.
type Hint struct {
	Expert      int
	Probability float32
}

// Threshold is δ: the share of a layer's probability that is worth fetching by a map of
// such a score.
func Threshold[F ~float32 | ~float64](score F) F {
	if math.IsNaN(float64(score)) {
		return 1
	}
	return max(0, min(1, 1-score))
}

// Select appends to into the fewest experts, most probable first and of equal ones the
// lower id first, whose probabilities reach Threshold(score), but at least topK and at
// most all of them: sums of float32 may miss 1.
func Select[F ~float32 | ~float64](row []F, score F, topK int, into []Hint) []Hint {
	delta, begin := float64(Threshold(score)), len(into)
	for e, p := range row {
		into = append(into, Hint{e, float32(p)})
	}
	chosen := into[begin:]
	slices.SortFunc(chosen, func(a, b Hint) int {
		return cmp.Or(cmp.Compare(row[b.Expert], row[a.Expert]), cmp.Compare(a.Expert, b.Expert))
	})
	sum, n := 0.0, 0
	for n < len(chosen) && (n < topK || sum < delta) {
		sum += float64(row[chosen[n].Expert])
		n++
	}
	return into[:begin+n]
}

// Several is the probability that any of so many rows, each with topK choices, uses an expert
// whose mean probability is p.
func Several(rows, topK int, p float32) float32 {
	if rows == 1 {
		return min(1, max(0, p))
	}
	return float32(1 - math.Pow(1-min(1, max(0, float64(topK)*float64(p))), float64(rows)))
}

// Least is how many experts of a map's row are worth fetching at least, for so many rows of which
// the map is the mean: topK, and of several rows those that are rather used than not.
func Least(row []float32, rows, topK int) int {
	if rows == 1 {
		return topK
	}
	n := 0
	for _, p := range row {
		if Several(rows, topK, p) >= 0.5 {
			n++
		}
	}
	return max(topK, n)
}

// nearest knows of each map the one that it is the most similar to: of equally similar
// ones that in the lowest slot. It follows from the maps alone.
type nearest struct {
	to    []int     // by slot; -1 where there is no other
	alike []float64 // how similar
}

// nearest makes it at first need.
func (p *part) nearest(s *Store) *nearest {
	if p.near == nil {
		p.near = &nearest{}
		for from := 0; from < p.count; from += redundantRows {
			p.near.fill(s, p, from, min(from+redundantRows, p.count))
		}
	}
	return p.near
}

// fill looks for the nearest of some slots.
func (n *nearest) fill(s *Store, p *part, from, to int) {
	var batch []Map
	for slot := from; slot < to; slot++ {
		batch = append(batch, p.mapIn(slot))
	}
	for i, alike := range p.redundancy(s, batch) {
		n.set(p, from+i, alike)
	}
}

// set finds the nearest of a slot, of which it is told how similar it is to all.
func (n *nearest) set(p *part, slot int, alike []float64) {
	for len(n.to) < p.count {
		n.to, n.alike = append(n.to, -1), append(n.alike, 0)
	}
	n.to[slot] = -1
	for other := range alike {
		if other != slot && (n.to[slot] < 0 || alike[other] > n.alike[slot]) {
			n.to[slot], n.alike[slot] = other, alike[other]
		}
	}
}

// mapIn is a slot's map as it is held.
func (p *part) mapIn(slot int) Map {
	m := Map{Embedding: make([]float32, p.Embedding), Probabilities: make([]float32, p.Layers*p.Experts)}
	if p.embeddings != nil {
		p.embeddings.Row(m.Embedding, slot)
	}
	for l, t := range p.layers {
		t.Row(m.Probabilities[l*p.Experts:(l+1)*p.Experts], slot)
	}
	return m
}

// victim is the older map of the two most similar ones, of which the new map may be one,
// as far as neither is taken.
func (n *nearest) victim(p *part, alike []float64, taken []bool) int {
	pair := p.best(taken, func(a, b int) int { return compareNear(n.alike[a], n.alike[b], n.to[a], n.to[b]) })
	mine := p.best(taken, func(a, b int) int { return compareNear(alike[a], alike[b], a, b) })
	switch {
	case mine < 0 || n.to[pair] < 0 || alike[mine] >= n.alike[pair]:
		return mine
	case !taken[n.to[pair]] && p.added[n.to[pair]] < p.added[pair]:
		return n.to[pair]
	}
	return pair
}

// compareNear compares how near two slots are; what is near to none comes first.
func compareNear(a, b float64, to, other int) int {
	switch {
	case to < 0 && other < 0 || a == b:
		return 0
	case to < 0 || other >= 0 && a < b:
		return -1
	}
	return 1
}

// replaced brings it up to date after a slot has got a new map.
func (n *nearest) replaced(s *Store, p *part, slot int) {
	if n == nil {
		return
	}
	alike := p.redundancy(s, []Map{p.mapIn(slot)})[0]
	n.set(p, slot, alike)
	var stale []int
	for other := range p.count {
		switch {
		case other == slot:
		case n.to[other] == slot:
			stale = append(stale, other)
		case n.to[other] < 0 || alike[other] > n.alike[other] || alike[other] == n.alike[other] && slot < n.to[other]:
			n.to[other], n.alike[other] = slot, alike[other]
		}
	}
	for _, other := range stale {
		n.fill(s, p, other, other+1)
	}
}

// codec says how values of a format are held.
type codec struct {
	*cpu.Table // without outputs; nil where there are no values
	exact      bool
}

func newCodec(values int, f Format) codec {
	if values == 0 {
		return codec{}
	}
	return codec{cpu.NewTable(values, formats[f]), f == F32}
}

// held is v as it is held, in into if that differs; b is room for the encoding.
func (c codec) held(into, v []float32, b []byte) (held []float32, room []byte) {
	if c.exact {
		return v, b
	}
	b = c.Encode(b[:0], v)
	into = into[:len(v)]
	c.Decode(into, b)
	return into, b
}
