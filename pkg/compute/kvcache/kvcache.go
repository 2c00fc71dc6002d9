// Package kvcache keeps keys and values in pages of fixed positions, within a
// memory budget. A page holds PagePositions consecutive positions of one sequence,
// of all layers that see equally far, with all of their heads. What no later
// position sees is given back.
package kvcache

import (
	"container/list"
	"errors"
	"fmt"
	"sort"
	"sync"

	"github.com/switchyard/switchyard/kernels/cpu"
)

// PagePositions is how many positions a page holds.
const PagePositions = cpu.PagePositions

// ErrFull says that the pool has too few free pages for now.
var ErrFull = errors.New("no free KV pages")

// Pool hands out memory in units of Shape.PageBytes, here called pages. It is safe
// for concurrent use; what a table holds belongs to one sequence.
type Pool struct {
	shape    Shape
	groups   []group
	places   []place // of each layer
	capacity int
	onDevice bool // all pages are there, of one size, and free[0] has the free ones

	mu   sync.Mutex
	free [][]*page // of each group
	made int64     // bytes of all pages, free ones too
	used int
	prefixes
}

// page is memory of this process, or of a device.
type page struct {
	data []float32
	at   uint64

	tables  int  // that have it
	offered bool // to others, under key
	key     Key
	owner   *owner        // of one that is offered: who computed it
	idle    *list.Element // among those that no table has
}

// NewPool returns a pool of at most budget bytes. Memory is allocated when first
// used and kept for reuse, and a part of it while nobody uses any.
func NewPool(shape Shape, budget int64) (*Pool, error) {
	n := budget / shape.PageBytes()
	if n < 1 {
		return nil, fmt.Errorf("a KV budget of %d bytes is less than one page of %d bytes; raise it", budget, shape.PageBytes())
	}
	p := &Pool{shape: shape, capacity: int(n)}
	p.groups, p.places = shape.groups()
	p.free = make([][]*page, len(p.groups))
	return p, nil
}

// Capacity returns the number of pages of the pool, Used how many are taken.
func (p *Pool) Capacity() int { return p.capacity }

// Free returns the number of pages that nobody has reserved.
func (p *Pool) Free() int { return p.capacity - p.Used() }

// FreeFor is Free without what is kept of tenants that have less for their weight than this one.
func (p *Pool) FreeFor(tenant string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.capacity - p.used - min(p.prefixes.keptBeside(tenant), p.capacity/keptPart)
}

// Share returns how many pages the tables of a tenant have reserved for its weight.
func (p *Pool) Share(tenant string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.prefixes.owners[tenant]; o != nil {
		return float64(o.tables) / o.weight
	}
	return 0
}

// Used returns the number of pages that sequences have reserved.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Holds returns how many positions a sequence of at most limit can have in the whole pool.
func (p *Pool) Holds(limit int) int {
	return sort.Search(limit, func(n int) bool { return p.Need(n+1) > p.capacity })
}

// PageBytes returns what a page takes.
func (p *Pool) PageBytes() int64 { return p.shape.PageBytes() }

// Need returns how many pages a sequence of at most this many positions takes.
func (p *Pool) Need(positions int) int { return need(p.groups, positions, p.shape.Rows) }

// Reserve takes as many pages as a sequence of at most this many positions needs,
// or none and ErrFull. Table.Grow takes more for a longer one.
func (p *Pool) Reserve(positions int) (*Table, error) { return p.ReserveFor("", 1, positions) }

// ReserveFor is Reserve for a tenant of a weight.
func (p *Pool) ReserveFor(tenant string, weight float64, positions int) (*Table, error) {
	t := &Table{pool: p, pages: make([][]*page, len(p.groups)), held: make([]span, len(p.groups))}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.owner = p.prefixes.owner(tenant, weight)
	if err := t.grow(positions); err != nil {
		p.prefixes.forget(t.owner)
		return nil, err
	}
	return t, nil
}

// take returns a page for a group. The caller has the lock.
func (p *Pool) take(g int) *page {
	pg := p.find(g)
	pg.tables = 1
	return pg
}

func (p *Pool) find(g int) *page {
	g = p.list(g)
	if last := len(p.free[g]) - 1; last >= 0 {
		pg := p.free[g][last]
		p.free[g][last], p.free[g] = nil, p.free[g][:last]
		return pg
	}
	size, budget := p.groups[g].bytes(), int64(p.capacity)*p.shape.PageBytes()
	if p.onDevice || p.made+size > budget {
		if pg := p.evict(); pg != nil {
			return pg
		}
	}
	if p.onDevice {
		panic("kvcache: a sequence takes more of a device's pages than it has reserved")
	}
	p.shrink(budget - size)
	p.made += size
	return &page{data: make([]float32, p.groups[g].floats)}
}

// give takes a page of a group back from one that has it. The caller has the lock.
func (p *Pool) give(g int, pg *page) {
	if pg.tables--; pg.tables > 0 || p.prefixes.keep(pg) {
		return
	}
	g = p.list(g)
	p.free[g] = append(p.free[g], pg)
}

func (p *Pool) list(g int) int {
	if p.onDevice {
		return 0
	}
	return g
}

// idleShare is the part of a pool's bytes that is kept for reuse while nobody has any: the
// rest goes back to the process, for which a moment with many sequences would else be
// for good.
const idleShare = 8

// shrink forgets free pages of any group, and then those that were offered, until no more than so
// many bytes are made.
func (p *Pool) shrink(most int64) {
	for g := range p.free {
		for p.made > most && len(p.free[g]) > 0 {
			last := len(p.free[g]) - 1
			p.free[g][last] = nil // or the array keeps it
			p.free[g] = p.free[g][:last]
			p.made -= p.groups[g].bytes()
		}
	}
	for p.made > most && p.evict() != nil {
		p.made -= p.groups[0].bytes()
	}
}
