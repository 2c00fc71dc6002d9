package kvcache

import (
	"fmt"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// Table is one sequence's pages.
type Table struct {
	pool     *Pool
	owner    *owner
	reserved int
	pages    [][]*page // of each group, by position; nil where there is none now
	held     []span    // which of each group's there are
}

type span struct{ first, end int }

// Positions returns how many positions fit.
func (t *Table) Positions() int { return len(t.pages[0]) * cpu.PagePositions }

// Reserved returns how many of the pool's pages it has.
func (t *Table) Reserved() int { return t.reserved }

// Grow makes room for at least so many positions, or leaves the table as it is: ErrFull.
func (t *Table) Grow(positions int) error {
	t.pool.mu.Lock()
	defer t.pool.mu.Unlock()
	return t.grow(positions)
}

func (t *Table) grow(positions int) error {
	p, want := t.pool, t.pool.Need(positions)
	if more := want - t.reserved; more > 0 {
		if free := p.capacity - p.used; more > free {
			return fmt.Errorf("%w: %d positions need %d more pages, %d of %d are free", ErrFull, positions, more, free, p.capacity)
		}
		p.used, t.reserved = p.used+more, want
		t.owner.tables += more
	}
	for g := range t.pages {
		for len(t.pages[g]) < PagesFor(positions) {
			t.pages[g] = append(t.pages[g], nil)
		}
	}
	return nil
}

// Span makes room for the positions [from, end), which are computed next, and gives
// back what none of them sees, and what lies beyond them.
func (t *Table) Span(from, end int) {
	p := t.pool
	for g := range t.pages {
		first := p.groups[g].sight.First(from) / cpu.PagePositions
		t.hold(g, first, PagesFor(end))
	}
}

// hold leaves a group the pages [first, end) and no others. Where all is seen, pages
// once held stay.
func (t *Table) hold(g, first, end int) {
	p, pages, held := t.pool, t.pages[g], t.held[g]
	if p.groups[g].sight.Most() == 0 {
		first, end = 0, max(end, held.end)
	}
	if held == (span{first, end}) {
		return
	}
	t.held[g] = span{first, end}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := held.first; i < held.end; i++ {
		if i < first || i >= end {
			p.give(g, pages[i])
			pages[i] = nil
		}
	}
	for i := first; i < end; i++ {
		if pages[i] == nil {
			pages[i] = p.take(g)
		}
	}
}

// Pages returns how many pages hold something of a layer.
func (t *Table) Pages(layer int) int {
	h := t.held[t.pool.places[layer].group]
	return h.end - h.first
}

// Release gives everything back. Calling it again does nothing.
func (t *Table) Release() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= t.reserved
	t.owner.tables -= t.reserved
	t.reserved = 0
	t.empty()
	p.prefixes.forget(t.owner)
	clear(t.pages)
	if p.used == 0 && !p.onDevice {
		p.shrink(int64(p.capacity) * p.shape.PageBytes() / idleShare)
	}
}

// empty gives back all pages, the last ones first: of those that were offered, a page is of use only
// with all before it. The caller has the lock.
func (t *Table) empty() {
	for g, h := range t.held {
		pages := t.pages[g]
		for i := h.end - 1; i >= h.first; i-- {
			t.pool.give(g, pages[i])
			pages[i] = nil
		}
		t.held[g] = span{}
	}
}

// Store writes one position's keys (heads, C) and values (heads, C') of all KV heads.
func (t *Table) Store(layer, position int, k, v []float32) {
	shape := &t.pool.shape.Layers[layer]
	block, keys, head := t.block(layer, position), shape.keys(), shape.head()
	for range shape.Heads {
		shape.Format.Store(block[:keys], block[keys:head], position%cpu.PagePositions, k[:shape.KeyDim], v[:shape.ValueDim])
		block, k, v = block[head:], k[shape.KeyDim:], v[shape.ValueDim:]
	}
}

// StoreLatent writes one position's latent.
func (t *Table) StoreLatent(layer, position int, latent []float32) {
	shape := &t.pool.shape.Layers[layer]
	cpu.Latent{Rank: shape.KeyDim, Rope: shape.ValueDim, Format: shape.Format}.Store(t.block(layer, position), position%cpu.PagePositions, latent)
}

// Layer appends what the pages that cover positions [start, end) hold of a layer,
// page by page, as cpu.AttendKept and cpu.AttendLatent take it.
func (t *Table) Layer(dst [][]float32, layer, start, end int) [][]float32 {
	at := t.pool.places[layer]
	for _, pg := range t.pages[at.group][start/cpu.PagePositions : PagesFor(end)] {
		dst = append(dst, pg.data[at.from:at.to:at.to])
	}
	return dst
}

func (t *Table) block(layer, position int) []float32 {
	at := t.pool.places[layer]
	return t.pages[at.group][position/cpu.PagePositions].data[at.from:at.to:at.to]
}
