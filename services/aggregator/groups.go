package aggregator

import (
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// groupID names the rows that are summed together: a part of one microbatch
// at one layer, in one attempt. Attempts are collected apart: a re-issue then
// needs nothing that an earlier aggregator or host may have lost.
type groupID struct {
	owner      string
	epoch      uint64
	microbatch uint64
	layer      uint32
	firstRow   uint32
	attempt    uint32
}

func idOf(k *pb.Key) groupID {
	return groupID{k.Owner, k.Epoch, k.Microbatch, k.Layer, k.FirstRow, k.Attempt}
}

// group is the partials of one groupID, (rows, k, d).
type group struct {
	key     *pb.Key
	topK    int
	x       []float32
	seen    []bool
	missing int
	began   time.Time
}

// outcome says what a partial did.
type outcome uint8

const (
	waiting  outcome = iota // the group is not whole yet
	whole                   // the group is whole now
	repeated                // nothing in it was new
)

// groups collects partials. It is a pure state machine; the time is an argument.
type groups struct {
	d    int
	open map[groupID]*group
	// done remembers finished groups, so that a late repeat does not open one again.
	done map[groupID]time.Time
	free []*group
	row  []float32
}

func newGroups(d int) *groups {
	return &groups{d: d, open: map[groupID]*group{}, done: map[groupID]time.Time{}}
}

// Bounds of what a message may claim: a group takes memory as soon as its
// first partial is in. maxElements is a gigabyte, what a server's largest
// message and a top-k of eight can need.
const (
	maxTopK     = 256
	maxElements = 1 << 28
)

// add takes a partial's rows in. The group is returned when it is whole; the
// caller gives it back with release.
func (gs *groups) add(p *pb.Partial, now time.Time) (*group, outcome, error) {
	n, err := gs.check(p)
	if err != nil {
		return nil, waiting, err
	}
	id := idOf(p.Key)
	if _, ok := gs.done[id]; ok {
		return nil, repeated, nil
	}
	g, err := gs.openGroup(id, p, now)
	if err != nil {
		return nil, waiting, err
	}
	fresh, err := gs.fill(g, p, n)
	switch {
	case err != nil:
		return nil, waiting, err
	case g.missing == 0:
		gs.finish(id, now)
		return g, whole, nil
	case !fresh:
		return nil, repeated, nil
	}
	return nil, waiting, nil
}

func (gs *groups) check(p *pb.Partial) (rows int, err error) {
	rows, err = wire.Rows(p.Tensor, gs.d)
	if err != nil {
		return 0, err
	}
	if len(p.Row) != rows || len(p.Slot) != rows || p.TopK == 0 || p.TopK > maxTopK || uint64(p.Key.Rows)*uint64(p.TopK)*uint64(gs.d) > maxElements {
		return 0, fmt.Errorf("%w: partial of %d rows with %d row and %d slot numbers for a group of (%d, %d)",
			wire.ErrMalformed, rows, len(p.Row), len(p.Slot), p.Key.Rows, p.TopK)
	}
	for i := range p.Row {
		if p.Row[i] >= p.Key.Rows || p.Slot[i] >= p.TopK {
			return 0, fmt.Errorf("%w: partial for row %d, slot %d of (%d, %d)",
				wire.ErrMalformed, p.Row[i], p.Slot[i], p.Key.Rows, p.TopK)
		}
	}
	return rows, nil
}

func (gs *groups) openGroup(id groupID, p *pb.Partial, now time.Time) (*group, error) {
	size := int(p.Key.Rows) * int(p.TopK)
	if g := gs.open[id]; g != nil {
		if len(g.seen) != size || g.topK != int(p.TopK) {
			return nil, fmt.Errorf("%w: partials of one group disagree on its size", wire.ErrMalformed)
		}
		return g, nil
	}
	g := gs.reuse()
	g.key, g.topK, g.began, g.missing = p.Key, int(p.TopK), now, size
	g.x = forward.Resize(g.x, size*gs.d)
	g.seen = forward.Resize(g.seen, size)
	clear(g.seen)
	gs.open[id] = g
	return g, nil
}

func (gs *groups) reuse() *group {
	if last := len(gs.free) - 1; last >= 0 {
		g := gs.free[last]
		gs.free = gs.free[:last]
		return g
	}
	return &group{}
}

// fill decodes the rows into their places.
func (gs *groups) fill(g *group, p *pb.Partial, n int) (fresh bool, err error) {
	gs.row = forward.Resize(gs.row, n*gs.d)
	if err := wire.Decode(gs.row, p.Tensor, gs.d); err != nil {
		return false, err
	}
	for i := range n {
		at := int(p.Row[i])*g.topK + int(p.Slot[i])
		if g.seen[at] {
			continue
		}
		g.seen[at], fresh = true, true
		g.missing--
		copy(g.x[at*gs.d:(at+1)*gs.d], gs.row[i*gs.d:(i+1)*gs.d])
	}
	return fresh, nil
}

func (gs *groups) finish(id groupID, now time.Time) {
	delete(gs.open, id)
	gs.done[id] = now
}

// sum is the block (rows, d) of a whole group.
func (gs *groups) sum(g *group, out []float32) []float32 {
	out = forward.Resize(out, int(g.key.Rows)*gs.d)
	forward.Combine(out, g.x, g.topK, gs.d)
	return out
}

// maxFree bounds the groups that are kept for their memory.
const maxFree = 16

func (gs *groups) release(g *group) {
	if len(gs.free) < maxFree {
		gs.free = append(gs.free, g)
	}
}

// expire forgets tombstones and incomplete groups that are older than age, and
// says how many of the latter there were.
func (gs *groups) expire(now time.Time, age time.Duration) (incomplete int) {
	for id, at := range gs.done {
		if now.Sub(at) > age {
			delete(gs.done, id)
		}
	}
	for id, g := range gs.open {
		if now.Sub(g.began) > age {
			delete(gs.open, id)
			gs.release(g)
			incomplete++
		}
	}
	return incomplete
}
