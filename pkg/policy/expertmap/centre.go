package expertmap

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
