// Package kvcache keeps keys and values in pages of fixed positions, within a
// memory budget. A page holds all layers and KV heads of PagePositions
// consecutive positions of one sequence, so that a sequence has one page table.
package kvcache

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// ErrFull says that the pool has too few free pages for now.
var ErrFull = errors.New("no free KV pages")

// Shape says how much a position needs, layer by layer.
type Shape struct{ Layers []LayerShape }

// LayerShape is what a layer keeps of a position: a key and a value for each
// head, or a latent, which is one key without a value.
type LayerShape struct{ Heads, KeyDim, ValueDim int }

// Latent is the shape of a layer that keeps a latent of so many elements.
func Latent(width int) LayerShape { return LayerShape{Heads: 1, KeyDim: width} }

// Uniform is the shape of layers that are all alike.
func Uniform(layers, heads, dim int) Shape {
	return Shape{slices.Repeat([]LayerShape{{heads, dim, dim}}, layers)}
}

// head is the number of floats of one page's keys and values of one head.
func (l LayerShape) head() int { return (l.KeyDim + l.ValueDim) * cpu.PagePositions }

// floats is what a layer takes in a page.
func (l LayerShape) floats() int { return l.Heads * l.head() }

// PageBytes is the memory of one page.
func (s Shape) PageBytes() int64 {
	n := int64(0)
	for _, l := range s.Layers {
		n += 4 * int64(l.floats())
	}
	return n
}

// PagesFor is the number of pages that hold this many positions.
func PagesFor(positions int) int {
	return (positions + cpu.PagePositions - 1) / cpu.PagePositions
}

// Pool hands out pages. It is safe for concurrent use; the pages it gives
// belong to one sequence each.
type Pool struct {
	shape    Shape
	at       []int // where each layer begins in a page, and where the last one ends
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
	return &Pool{shape: shape, at: shape.offsets(), capacity: int(n)}, nil
}

func (s Shape) offsets() []int {
	at := []int{0}
	for i, l := range s.Layers {
		at = append(at, at[i]+l.floats())
	}
	return at
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

// Store writes one position's key and value of one KV head.
func (t *Table) Store(layer, head, position int, k, v []float32) {
	shape := t.pool.shape.Layers[layer]
	block := t.layer(t.pages[position/cpu.PagePositions], layer)[head*shape.head():]
	keys := shape.KeyDim * cpu.PagePositions
	cpu.StoreKV(block[:keys], block[keys:shape.head()], position%cpu.PagePositions, k, v)
}

// StoreLatent writes one position's latent.
func (t *Table) StoreLatent(layer, position int, latent []float32) {
	cpu.StoreLatent(t.layer(t.pages[position/cpu.PagePositions], layer), position%cpu.PagePositions, latent)
}

// Layer appends what the pages that cover positions [0, end) hold of a layer,
// page by page, as cpu.Attend and cpu.AttendLatent take it.
func (t *Table) Layer(dst [][]float32, layer, end int) [][]float32 {
	for _, pg := range t.pages[:PagesFor(end)] {
		dst = append(dst, t.layer(pg, layer))
	}
	return dst
}

func (t *Table) layer(pg *page, layer int) []float32 {
	at, end := t.pool.at[layer], t.pool.at[layer+1]
	return pg.data[at:end:end]
}
