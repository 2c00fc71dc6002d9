// Package kvcache keeps keys and values in pages of fixed positions, within a
// memory budget. A page holds all layers and KV heads of PagePositions
// consecutive positions of one sequence, so that a sequence has one page table.
package kvcache

import (
	"errors"
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// ErrFull says that the pool has too few free pages for now.
var ErrFull = errors.New("no free KV pages")

// Shape says how much a position needs.
type Shape struct {
	Layers, KVHeads, HeadDim int
}

// block is the number of floats of one page's keys (or values) of one head of one layer.
func (s Shape) block() int { return s.HeadDim * cpu.PagePositions }

// PageBytes is the memory of one page.
func (s Shape) PageBytes() int64 {
	return int64(s.Layers) * 2 * int64(s.KVHeads) * int64(s.block()) * 4
}

// PagesFor is the number of pages that hold this many positions.
func PagesFor(positions int) int {
	return (positions + cpu.PagePositions - 1) / cpu.PagePositions
}

// Pool hands out pages. It is safe for concurrent use; the pages it gives
// belong to one sequence each.
type Pool struct {
	shape    Shape
	capacity int

	mu   sync.Mutex
	free []*page
	used int
}

type page struct {
	data []float32
}

// NewPool returns a pool of at most budget bytes. Pages are allocated when
// first used and kept for reuse.
func NewPool(shape Shape, budget int64) (*Pool, error) {
	n := budget / shape.PageBytes()
	if n < 1 {
		return nil, fmt.Errorf("a KV budget of %d bytes is less than one page of %d bytes; raise it", budget, shape.PageBytes())
	}
	return &Pool{shape: shape, capacity: int(n)}, nil
}

// Capacity is the number of pages of the pool, Used how many are taken.
func (p *Pool) Capacity() int { return p.capacity }

// Free is the number of pages that nobody holds.
func (p *Pool) Free() int { return p.capacity - p.Used() }

// Used is the number of pages that sequences hold.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Reserve takes all pages that a sequence of at most this many positions will
// need, or none and ErrFull: a sequence once admitted never waits for memory.
func (p *Pool) Reserve(positions int) (*Table, error) {
	n := PagesFor(positions)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.capacity {
		return nil, fmt.Errorf("%w: %d positions need %d pages, %d of %d are free",
			ErrFull, positions, n, p.capacity-p.used, p.capacity)
	}
	p.used += n
	return p.table(n), nil
}

func (p *Pool) table(n int) *Table {
	t := &Table{pool: p, pages: make([]*page, n)}
	for i := range t.pages {
		if last := len(p.free) - 1; last >= 0 {
			t.pages[i], p.free = p.free[last], p.free[:last]
			continue
		}
		t.pages[i] = &page{data: make([]float32, p.shape.PageBytes()/4)}
	}
	return t
}

// Table is one sequence's pages.
type Table struct {
	pool  *Pool
	pages []*page
}

// Positions is how many positions fit.
func (t *Table) Positions() int { return len(t.pages) * cpu.PagePositions }

// Release gives the pages back. Calling it again does nothing.
func (t *Table) Release() {
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= len(t.pages)
	p.free = append(p.free, t.pages...)
	t.pages = nil
}

// Store writes one position's key and value of one KV head, (headDim) each.
func (t *Table) Store(layer, head, position int, k, v []float32) {
	size := t.pool.shape.block()
	blocks := t.layer(t.pages[position/cpu.PagePositions], layer)[head*2*size:]
	cpu.StoreKV(blocks[:size], blocks[size:2*size], position%cpu.PagePositions, k, v)
}

// Layer appends what the pages that cover positions [0, end) hold of a layer,
// page by page, as cpu.Attend takes it.
func (t *Table) Layer(dst [][]float32, layer, end int) [][]float32 {
	for _, pg := range t.pages[:PagesFor(end)] {
		dst = append(dst, t.layer(pg, layer))
	}
	return dst
}

func (t *Table) layer(pg *page, layer int) []float32 {
	size := t.pool.shape.KVHeads * 2 * t.pool.shape.block()
	at := layer * size
	return pg.data[at : at+size : at+size]
}
