package aggregator

import (
	"bytes"
	"container/list"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// groupID names the rows that are summed together: a part of a step's rows at
// one layer, in one attempt. Attempts are collected apart: a re-issue then
// needs nothing that an earlier aggregator or host may have lost. So are gates' decisions on one
// attempt, as when a gate is lost that has sent a part of it: a slot never has two fates.
type groupID struct {
	owner      string
	epoch      uint64
	step       uint64
	microbatch uint32
	layer      uint32
	firstRow   uint32
	attempt    uint32
	decision   uint64
}

func idOf(p *pb.Partial) groupID {
	k := p.Key
	return groupID{k.Owner, k.Epoch, k.Step, k.Microbatch, k.Layer, k.Part, k.Attempt, p.Decision}
}

// group is the partials of one groupID. It has memory for what has arrived,
// and two bits for each row and slot that is claimed.
type group struct {
	id     groupID
	key    *pb.Key
	awaits wire.Awaits
	wanted int       // slots that are awaited
	have   int       // of them, have arrived, in sums or alone
	x      []float32 // (arrived, d)
	place  []uint32  // row·k + slot of each, or the place of its row's sum
	took   []float32 // of memory, by row; none: nothing was metered
	seen   []uint64  // a bit a slot
	began  time.Time
	stored bool          // rows or outputs are in objects
	times                // of what has arrived
	age    *list.Element // in groups.byAge
	bytes  int           // as counted in groups.bytes
}

// mark takes those of some slots that are awaited and not there yet, and counts them.
func (g *group) mark(from, to int) (n int) {
	for slot := from; slot < to; slot++ {
		if bit := uint64(1) << (slot % 64); g.awaits.Has(slot) && g.seen[slot/64]&bit == 0 {
			g.seen[slot/64] |= bit
			n++
		}
	}
	return n
}

// groupBytes is about what a group takes beside its slices.
const groupBytes = 512

func (g *group) size() int {
	return groupBytes + 4*cap(g.x) + 4*cap(g.place) + 4*cap(g.took) + 8*cap(g.seen) + len(g.awaits) + functionBytes*cap(g.functions) + 4*g.cold + len(g.fates.GetCodes())
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
	shape *wire.Shape
	// limit bounds the bytes of open groups: the oldest goes first.
	limit int
	bytes int
	open  map[groupID]*group
	byAge *list.List // of *group
	// done remembers finished groups, so that a late repeat does not open one again.
	done    tombstones
	free    []*group
	row     []float32
	at      []int32
	evicted int // since the last call of expire
}

func newGroups(shape *wire.Shape, limit int) *groups {
	return &groups{shape: shape, limit: limit, open: map[groupID]*group{}, byAge: list.New(), done: tombstones{of: map[groupID]bool{}}}
}

// add takes a partial's rows in. The group is returned when it is whole; the
// caller gives it back with release.
func (gs *groups) add(p *pb.Partial, now time.Time) (*group, outcome, error) {
	n, err := gs.shape.CheckPartial(p)
	if err != nil {
		return nil, waiting, err
	}
	id := idOf(p)
	if gs.done.of[id] {
		return nil, repeated, nil
	}
	g := gs.open[id]
	if g == nil {
		g = gs.openGroup(id, p, now)
	}
	if g.key.Rows != p.Key.Rows || !bytes.Equal(g.awaits, p.Awaits) {
		return nil, waiting, fmt.Errorf("%w: partials of one group disagree on its size or on what it awaits", wire.ErrMalformed)
	}
	fresh, err := gs.fill(g, p, n)
	switch {
	case err != nil:
		return nil, waiting, err
	case g.have == g.wanted && (g.fates == nil) != (id.decision == 0):
		gs.shut(g)
		gs.release(g)
		return nil, waiting, fmt.Errorf("%w: partials of a group of decision %016x, none of which says what it is", wire.ErrMalformed, id.decision)
	case g.have == g.wanted:
		gs.shut(g)
		gs.done.add(id, now)
		return g, whole, nil
	case !fresh:
		return nil, repeated, nil
	}
	gs.evict(g)
	return nil, waiting, nil
}

func (gs *groups) openGroup(id groupID, p *pb.Partial, now time.Time) *group {
	g, places := gs.reuse(), int(p.Key.Rows)*gs.shape.TopK
	g.id, g.key, g.awaits, g.began = id, p.Key, p.Awaits, now
	g.wanted, g.have = g.awaits.Count(places), 0
	g.stored = false
	g.x, g.place, g.took, g.times = g.x[:0], g.place[:0], g.took[:0], times{functions: g.functions[:0]}
	g.seen = reuse.Slice(g.seen, (places+63)/64)
	clear(g.seen)
	gs.open[id] = g
	g.age = gs.byAge.PushBack(g)
	return g
}

func (gs *groups) reuse() *group {
	if last := len(gs.free) - 1; last >= 0 {
		g := gs.free[last]
		gs.free = gs.free[:last]
		return g
	}
	return &group{}
}

// fill takes the rows that are new.
func (gs *groups) fill(g *group, p *pb.Partial, n int) (fresh bool, err error) {
	d := gs.shape.Hidden
	gs.row = reuse.Slice(gs.row, n*d)
	if err := tensor.Decode(gs.row, p.Tensor, d); err != nil {
		return false, err
	}
	if len(p.ByteSeconds) > 0 && len(g.took) == 0 {
		g.took = reuse.Slice(g.took, int(g.key.Rows))
		clear(g.took)
	}
	for i, place := range p.Place {
		slots := gs.claim(g, place)
		if slots == 0 {
			continue
		}
		fresh = true
		g.have += slots
		g.place = append(g.place, place)
		g.x = append(g.x, gs.row[i*d:(i+1)*d]...)
		if len(p.ByteSeconds) > 0 {
			g.took[gs.rowOf(g, place)] += p.ByteSeconds[i]
		}
	}
	g.stored = g.stored || p.Parcel != nil
	if fresh {
		g.times.add(p)
	}
	gs.bytes += g.size() - g.bytes
	g.bytes = g.size()
	return fresh, nil
}

func (gs *groups) rowOf(g *group, place uint32) int {
	if row, sum := gs.shape.SummedRow(int(g.key.Rows), place); sum {
		return row
	}
	return gs.shape.Row(place)
}

// claim marks the slots of a place, and says how many are new. A row's sum is of use while
// any of its slots is missing: the others may have come alone from a host that got less of
// the row, by the dispatches of another gate, and those that are missing may never come.
func (gs *groups) claim(g *group, place uint32) int {
	row, sum := gs.shape.SummedRow(int(g.key.Rows), place)
	if !sum {
		return g.mark(int(place), int(place)+1)
	}
	return g.mark(row*gs.shape.TopK, (row+1)*gs.shape.TopK)
}

func (gs *groups) shut(g *group) {
	delete(gs.open, g.id)
	gs.byAge.Remove(g.age)
	gs.bytes -= g.bytes
	g.bytes = 0
}

// evict makes room for the newest group: what was issued again is in another
// one by now, and what nobody completes is worth nothing.
func (gs *groups) evict(newest *group) {
	for gs.bytes > gs.limit {
		oldest := gs.oldest()
		if oldest == newest {
			return
		}
		gs.shut(oldest)
		gs.release(oldest)
		gs.evicted++
	}
}

// oldest returns nil without open groups.
func (gs *groups) oldest() *group {
	if e := gs.byAge.Front(); e != nil {
		g, _ := e.Value.(*group)
		return g
	}
	return nil
}

// sum returns the block (rows, d) of a whole group: what is not awaited adds nothing.
func (gs *groups) sum(g *group, out []float32) []float32 {
	k := gs.shape.TopK
	gs.at = reuse.Slice(gs.at, int(g.key.Rows)*k)
	leaveOut(gs.at)
	for i, place := range g.place {
		if row, sum := gs.shape.SummedRow(int(g.key.Rows), place); sum {
			leaveOut(gs.at[row*k : (row+1)*k]) // the slots that came before it are in it
			place = uint32(row * k)
		}
		gs.at[place] = int32(i)
	}
	out = reuse.Slice(out, int(g.key.Rows)*gs.shape.Hidden)
	forward.Combine(out, g.x, gs.at, k, gs.shape.Hidden)
	return out
}

// leaveOut lets slots add nothing; see forward.Combine.
func leaveOut(at []int32) {
	for slot := range at {
		at[slot] = -1
	}
}

// Bounds of the groups that are kept for their memory.
const (
	maxFree      = 16
	maxFreeBytes = 16 << 20 // each
)

func (gs *groups) release(g *group) {
	if len(gs.free) < maxFree && g.size() <= maxFreeBytes {
		gs.free = append(gs.free, g)
	}
}

// expire forgets tombstones and incomplete groups that are older than age, and
// says how many of the latter there were, with those that were evicted since
// the last call.
func (gs *groups) expire(now time.Time, age time.Duration) (incomplete int) {
	gs.done.expire(now.Add(-age))
	incomplete, gs.evicted = gs.evicted, 0
	for g := gs.oldest(); g != nil && now.Sub(g.began) > age; g = gs.oldest() {
		gs.shut(g)
		gs.release(g)
		incomplete++
	}
	return incomplete
}

// maxTombstones bounds the finished groups that are remembered: more than a
// service finishes in the time that repeats take.
const maxTombstones = 1 << 17

// tombstones remembers finished groups, the oldest first.
type tombstones struct {
	of    map[groupID]bool
	order []tombstone
}

type tombstone struct {
	id groupID
	at time.Time
}

func (ts *tombstones) add(id groupID, now time.Time) {
	if len(ts.order) >= maxTombstones {
		ts.drop(maxTombstones / 4)
	}
	ts.of[id] = true
	ts.order = append(ts.order, tombstone{id, now})
}

// expire forgets those from before a time.
func (ts *tombstones) expire(before time.Time) {
	n := 0
	for n < len(ts.order) && ts.order[n].at.Before(before) {
		n++
	}
	ts.drop(n)
}

func (ts *tombstones) drop(n int) {
	for _, old := range ts.order[:n] {
		delete(ts.of, old.id)
	}
	ts.order = append(ts.order[:0], ts.order[n:]...)
}

// times is what a group's partials say of the time before them. Each partial
// that adds a row adds one function at most, so they are as many as routed rows.
type times struct {
	gate      *pb.GateTime
	functions []*pb.FunctionTime
	cold      int       // rows that waited for cold functions
	fates     *pb.Fates // nil: all slots had their own experts
}

// functionBytes is about what a function's time takes.
const functionBytes = 128

func (t *times) add(p *pb.Partial) {
	if t.gate == nil {
		t.gate = p.Gate
	}
	if t.fates == nil {
		t.fates = p.Fates
	}
	if p.Function != nil {
		t.functions = append(t.functions, p.Function)
		t.cold += len(p.Function.ColdRows)
	}
}
