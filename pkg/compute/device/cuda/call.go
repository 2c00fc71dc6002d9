package cuda

import (
	"fmt"
	"unsafe"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// call is one call's rows in the order of experts, and the tables that say so. It
// keeps its memory from call to call.
type call struct {
	layer   int
	sorter  forward.ByExpert
	order   []int32 // entries, by expert
	groups  []group
	sources []uint32  // of each row in order, the row of x that goes over
	rows    []uint32  // of x that go over
	place   []int32   // of each row of x, where it goes, or -1
	tiles   []tile    // of at most the variant's rows each
	weights []float32 // of each row in order
	longest int       // rows of the largest group
	sums    bool      // the rows of x come back, each the sum of its entries
	tables  tables
}

// group is rows of one expert: order[from:to].
type group struct {
	id       forward.ExpertID
	expert   *expert
	from, to int
}

// tile is as kernels read it: group, first row, rows, 0.
type tile [4]uint32

func (c *call) sort(in forward.Routed) {
	c.layer, c.order = in.Layer, c.sorter.Order(c.order[:0], in.Expert)
}

func (c *call) group(in forward.Routed) {
	c.groups, c.longest = c.groups[:0], 0
	for from := 0; from < len(c.order); {
		e, to := in.Expert[c.order[from]], from+1
		for to < len(c.order) && in.Expert[c.order[to]] == e {
			to++
		}
		c.groups = append(c.groups, group{id: forward.ExpertID{Layer: in.Layer, Expert: int(e)}, from: from, to: to})
		c.longest = max(c.longest, to-from)
		from = to
	}
}

// borrow keeps the experts of all groups, or none.
func (c *call) borrow(from *device.Store[*expert]) error {
	for i := range c.groups {
		g := &c.groups[i]
		if g.expert = from.Borrow(g.id); g.expert == nil {
			id := g.id
			c.groups = c.groups[:i]
			c.giveBack(from)
			return fmt.Errorf("%w: %v", forward.ErrNotWarm, id)
		}
	}
	return nil
}

func (c *call) giveBack(to *device.Store[*expert]) {
	for i := range c.groups {
		c.groups[i].expert = nil
		to.GiveBack(c.groups[i].id)
	}
	c.groups = c.groups[:0]
}

// gather lists the rows of x that are needed, each once.
func (c *call) gather(in forward.Routed, d int) {
	c.place = resize(c.place, len(in.X)/d)
	for i := range c.place {
		c.place[i] = -1
	}
	c.rows, c.sources, c.weights = c.rows[:0], c.sources[:0], c.weights[:0]
	for _, entry := range c.order {
		row := in.Source[entry]
		if c.place[row] < 0 {
			c.place[row] = int32(len(c.rows))
			c.rows = append(c.rows, row)
		}
		c.sources = append(c.sources, uint32(c.place[row]))
		c.weights = append(c.weights, in.Weight[entry])
	}
}

// cut makes tiles of at most so many rows.
func (c *call) cut(most int) {
	c.tiles = c.tiles[:0]
	for i, g := range c.groups {
		for from := g.from; from < g.to; from += most {
			c.tiles = append(c.tiles, tile{uint32(i), uint32(from), uint32(min(most, g.to-from)), 0})
		}
	}
}

// tables are where a call's tables and rows lie in what goes over, in bytes.
type tables struct{ in, down, tiles, source, weight, first, at, x, end int }

// tablesOf places tables for so many groups, tiles and rows, and for the n rows that go over,
// which come back as sums or not.
// Addresses are multiples of 16.
func tablesOf(groups, tiles, rows, n, d int, sums bool) (t tables) {
	next := func(bytes int) int {
		at := t.end
		t.end += (bytes + 15) / 16 * 16
		return at
	}
	t.in, t.down, t.tiles = next(16*groups), next(16*groups), next(16*tiles)
	t.source, t.weight = next(4*rows), next(4*rows)
	if sums {
		t.first, t.at = next(4*(n+1)), next(4*rows)
	}
	t.x = next(4 * n * d)
	return t
}

func (c *call) write(to []byte, in forward.Routed, d int) {
	matrices, downs := view[uint64](to, c.tables.in), view[uint64](to, c.tables.down)
	for i, g := range c.groups {
		matrices[2*i], matrices[2*i+1] = uint64(g.expert.in), uint64(g.expert.inBias)
		downs[2*i], downs[2*i+1] = uint64(g.expert.down), uint64(g.expert.downBias)
	}
	copy(view[tile](to, c.tables.tiles), c.tiles)
	copy(view[uint32](to, c.tables.source), c.sources)
	copy(view[float32](to, c.tables.weight), c.weights)
	if c.sums {
		in.FirstEntries(view[int32](to, c.tables.first)[:0])
		at := view[uint32](to, c.tables.at)
		for i, entry := range c.order {
			at[entry] = uint32(i)
		}
	}
	x := view[float32](to, c.tables.x)
	eachRow(len(c.rows), d, func(i int) { copy(x[i*d:(i+1)*d], in.X[int(c.rows[i])*d:]) })
}

// view returns the memory from a byte on as elements; from is a multiple of their size.
func view[T int32 | uint32 | uint64 | float32 | tile](b []byte, from int) []T {
	var zero T
	b = b[from:]
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
