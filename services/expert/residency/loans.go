package residency

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A host that offloads serves more experts than it holds. It is in the group of each function
// that a plan wants on it, and holds none of the function's experts for that: a dispatch
// borrows those that it needs, and what no dispatch has stays in memory until the room is
// needed. A dispatch that finds no room stands in a line, and none begins before an earlier one
// of the line has what it needs.

const (
	// lendEvery is how often the first of the line looks again by itself.
	lendEvery = 5 * time.Millisecond
	// lendWithin bounds how long a dispatch stands in the line: its rows go to another host then.
	lendWithin = 10 * time.Second
)

// errCrowded says that a dispatch has found no room for its experts for too long.
var errCrowded = errors.New("no memory became free for the experts of these rows")

// loans are the dispatches that wait for room, the first to get it first. The table's lock
// guards the line.
type loans struct {
	line []chan struct{}
	room chan struct{} // a note for the first: a load has ended
}

func (l *loans) join() chan struct{} {
	place := make(chan struct{}, 1)
	l.line = append(l.line, place)
	return place
}

func (l *loans) leave(place chan struct{}) {
	if at := slices.Index(l.line, place); at >= 0 {
		l.line = slices.Delete(l.line, at, at+1)
	}
	l.wake()
}

func (l *loans) wake() {
	if len(l.line) > 0 {
		pause.Wake(l.line[0])
	}
}

func (l *loans) first(place chan struct{}) bool { return l.line[0] == place }

// offloads reports whether a function's experts come and go with the rows for them.
func (t *table) offloads(f *Function) bool {
	return t.Offload && f.cannot == nil && f.spec.Kind != plan.United && t.memory.canHoldEach(f) // a number of another kind is no expert's
}

// fill loads as much of an offloaded function as memory is free for. Nothing waits for it.
func (t *table) fill(f *Function) {
	for _, id := range f.ids {
		if t.memory.holds(t.memory.size(id)) {
			f.experts = append(f.experts, t.Device.Load(t.ctx, id, t.plans.adopted)) //nolint:contextcheck,nolintlint // it outlives who asks for it
		}
	}
}

// needs returns those of a function's experts that a dispatch names.
func (f *Function) needs(experts []uint32) (ids []forward.ExpertID) {
	for _, e := range f.spec.Experts {
		if slices.Contains(experts, e) {
			ids = append(ids, forward.ExpertID{Layer: f.layer, Expert: int(e)})
		}
	}
	return ids
}

// lend waits until the experts of a dispatch are in memory, where they stay until giveUp.
func (t *table) lend(ctx context.Context, f *Function, d *pb.Dispatch, arrived time.Time) (a Roused, err error) {
	ids := f.needs(d.GetExpert())
	slices.SortStableFunc(ids, func(a, b forward.ExpertID) int { return t.memory.absent(a) - t.memory.absent(b) }) // else one that is there may go for one that is not
	if a.lent, a.Waited, err = t.borrowAll(ctx, f, ids); err != nil {
		return a, fmt.Errorf("function %s: %w", f.spec.Id, err)
	}
	f.begin()
	if a.Missing = missing(a.lent); len(a.Missing) > 0 {
		a.Waited = true
		if f.start == nil {
			f.start = newColdStart()
		}
		if err := t.awaitLoads(ctx, a.lent); err != nil {
			f.busy.Add(-1)
			t.giveUp(a.lent)
			return Roused{}, fmt.Errorf("function %s: %w", f.spec.Id, err)
		}
	}
	if a.Stale = f.stale(d, arrived); a.Stale {
		f.busy.Add(-1)
		t.giveUp(a.lent)
		a.lent = nil
	}
	return a, nil
}

// borrowAll has the device load experts. Where it has no room for all of them, the dispatch
// keeps what it has in the line, which the first alone does: the others of the host end without
// waiting for anything, and give their experts back.
func (t *table) borrowAll(ctx context.Context, f *Function, ids []forward.ExpertID) (lent []*device.Ticket, waited bool, err error) {
	place := t.loans.join()
	defer t.loans.leave(place)
	lent = make([]*device.Ticket, len(ids))
	for began := time.Now(); ; waited = true {
		if t.loans.first(place) && t.take(f, ids, lent) {
			return lent, waited, nil
		}
		if err = t.awaitTurn(ctx, place); err == nil && time.Since(began) > lendWithin {
			err = fmt.Errorf("%w in %v", errCrowded, lendWithin)
		}
		if err != nil {
			t.giveUp(lent)
			return nil, true, err
		}
	}
}

// take has the device load those of the experts that it has taken no load of yet. Where it has
// no room, what no rows are here for makes some. It is false if that does not suffice.
func (t *table) take(f *Function, ids []forward.ExpertID, lent []*device.Ticket) bool {
	for range 2 {
		short := int64(0)
		for i, id := range ids {
			if lent[i] == nil || refused(lent[i]) {
				lent[i] = t.Device.Load(t.ctx, id, device.Demanded) //nolint:contextcheck,nolintlint // others may wait for it too
			}
			if refused(lent[i]) {
				short += lent[i].Bytes
			}
		}
		if short == 0 {
			return true
		}
		if !t.yield(short) {
			t.makeRoom(f, short)
			break
		}
	}
	return false
}

// refused reports whether the device had no room for an expert.
func refused(t *device.Ticket) bool {
	no := (*device.RefusedError)(nil)
	return errors.As(t.Err(), &no)
}

// Freed says that a load has ended, so that there may be room. It waits for nothing.
func (r *Residency) Freed() { pause.Wake(r.table.loans.room) }

func (t *table) yield(bytes int64) bool {
	return t.Yield != nil && t.Yield(bytes)
}

// awaitTurn waits, without the lock, until a dispatch in the line may try, for a while.
func (t *table) awaitTurn(ctx context.Context, place chan struct{}) error {
	var room chan struct{}
	if t.loans.first(place) {
		room = t.loans.room
	}
	t.Unlock()
	defer t.Lock()
	timer := time.NewTimer(lendEvery)
	defer timer.Stop()
	select {
	case <-place:
	case <-room:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// awaitLoads waits for experts, without the lock.
func (t *table) awaitLoads(ctx context.Context, lent []*device.Ticket) error {
	t.Unlock()
	defer t.Lock()
	for _, ticket := range lent {
		if err := ticket.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the experts that are not in memory yet.
func missing(lent []*device.Ticket) (experts []uint32) {
	for _, t := range lent {
		select {
		case <-t.Done():
			if t.Err() == nil {
				continue
			}
		default:
		}
		experts = append(experts, uint32(t.ID.Expert))
	}
	return experts
}

// giveUp ends a loan.
func (t *table) giveUp(lent []*device.Ticket) {
	for _, ticket := range lent {
		if ticket != nil {
			ticket.Release()
		}
	}
	t.loans.wake()
}

// Fit shares the experts of a dispatch for a function out to groups, each of which the device
// can hold; nil if it can hold all of them at once. What the device holds now comes first.
func (r *Residency) Fit(f *Function, experts []uint32) (groups [][]uint32) {
	t := r.table
	if !t.Offload {
		return nil
	}
	t.Lock()
	defer t.Unlock()
	budget := t.Device.Memory().Budget
	if !f.offloaded || budget == 0 {
		return nil
	}
	budget -= t.pinned(nil)
	ids, bytes := f.needs(experts), int64(0)
	for _, id := range ids {
		bytes += t.memory.size(id)
	}
	if bytes <= budget {
		return nil
	}
	slices.SortStableFunc(ids, func(a, b forward.ExpertID) int { return t.memory.absent(a) - t.memory.absent(b) })
	left := int64(0)
	for _, id := range ids {
		size := t.memory.size(id)
		if size > left {
			groups, left = append(groups, nil), budget
		}
		left -= size
		last := len(groups) - 1
		groups[last] = append(groups[last], uint32(id.Expert))
	}
	return groups
}

// memory is what functions take of a device's memory, in bytes. It has no state of its own.
type memory struct{ device device.Device }

// size returns an expert's; 0 if the device does not know it.
func (m memory) size(id forward.ExpertID) int64 {
	n, err := m.device.Size(id)
	if err != nil {
		return 0
	}
	return n
}

func (m memory) whole(f *Function) (bytes int64) {
	f.eachExpert(func(id forward.ExpertID) { bytes += m.size(id) })
	return bytes
}

// missing returns the bytes of a function that the device does not hold.
func (m memory) missing(f *Function) (bytes int64) {
	f.eachExpert(func(id forward.ExpertID) {
		if m.device.State(id).Phase == device.Cold {
			bytes += m.size(id)
		}
	})
	return bytes
}

func (m memory) absent(id forward.ExpertID) int {
	if m.device.State(id).Phase == device.Warm {
		return 0
	}
	return 1
}

// short returns how many of so many bytes the device does not have free now.
func (m memory) short(bytes int64) int64 {
	now := m.device.Memory()
	return bytes - (now.Budget - now.Used)
}

func (m memory) bounded() bool { return m.device.Memory().Budget > 0 }

func (m memory) holds(bytes int64) bool {
	now := m.device.Memory()
	return now.Budget == 0 || bytes <= now.Budget-now.Used
}

func (m memory) canHoldEach(f *Function) bool {
	budget, each := m.device.Memory().Budget, true
	f.eachExpert(func(id forward.ExpertID) { each = each && m.size(id) <= budget })
	return budget == 0 || each
}

// tally is what a function's dispatches have come to: the rows of each of its experts, and
// what they took since it was last told. Any goroutine adds to it.
type tally struct {
	rows                                      map[uint32]prometheus.Counter // of each expert, in the metrics
	messages, computed, queue, stall, compute atomic.Uint64
}

func newTally(layer int, spec *pb.Function, m *telemetry.Metrics) tally {
	rows := map[uint32]prometheus.Counter{}
	for _, e := range spec.Experts {
		if spec.Kind == plan.United {
			rows[e] = m.UnitedRows(layer, int(spec.Way))
		} else {
			rows[e] = m.ExpertRows(layer, int(e))
		}
	}
	return tally{rows: rows}
}

func (t *tally) add(experts []uint32, took *pb.FunctionTime) {
	for _, e := range experts {
		if rows := t.rows[e]; rows != nil {
			rows.Inc()
		}
	}
	t.messages.Add(1)
	t.computed.Add(uint64(took.Rows))
	t.queue.Add(took.QueueNs)
	t.stall.Add(took.StallNs)
	t.compute.Add(took.ComputeNs)
}

// tell takes what there is to tell of a function. The table's lock is held.
func (f *Function) tell() *pb.FunctionLoad {
	t := &f.tally
	l := &pb.FunctionLoad{
		Id: f.spec.Id, Expert: slices.Sorted(slices.Values(f.spec.Experts)),
		Messages: t.messages.Swap(0), Rows: t.computed.Swap(0), QueueNs: t.queue.Swap(0), StallNs: t.stall.Swap(0), ComputeNs: t.compute.Swap(0),
	}
	if f.spec.Kind == plan.United {
		l.Kind, l.Way = f.spec.Kind, f.spec.Way
	}
	if f.receiving != nil {
		l.Waiting = uint32(f.receiving.Waiting())
	}
	return l
}
