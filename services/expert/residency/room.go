package residency

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	policy "github.com/switchyard/switchyard/pkg/policy/residency"
)

// What nobody needs stays in memory, because it may be needed again: a function
// that was retired rests, and one that is wanted cold stays warm after its rows.
// Both go when their time is over, or earlier when others need the room.

// errNoRoom says that memory is for functions that take rows.
var errNoRoom = errors.New("no memory is left for functions that are only kept")

// eviction is why a function's memory is to be freed.
type eviction string

const (
	stays    eviction = ""
	expired  eviction = "expired"  // nobody needed it for the keep-alive time
	pressure eviction = "pressure" // others need the room
)

// rests reports whether a function that is wanted no more stays in memory.
func (t *table) rests(f *Function, now time.Time) bool {
	return f.evict == stays && !t.leaving && now.Sub(f.unused) < t.KeepAlive
}

// expire frees what nobody has needed for long.
func (t *table) expire(now time.Time) {
	for _, f := range t.functions {
		switch idle := f.want == nothing && f.receiving == nil || f.want == cold && f.sleeps(); {
		case f.offloaded && f.borrowed && f.busy.Load() == 0 && now.Sub(f.unused) >= t.KeepAlive:
			t.giveBack(f)
		case idle && f.evict == stays && !t.rests(f, now):
			t.evict(f, expired)
		}
	}
}

// evict lets a function's memory be freed.
func (t *table) evict(f *Function, why eviction) {
	t.giveBack(f)
	f.evict = why
	if f.want == nothing {
		f.drop = true
	}
	f.interrupt()
	t.kick(f)
}

// order is in which functions make room for others.
var order policy.LRU

// makeRoom frees memory for a function that is so many bytes short: first what
// rests; then what is retired, though gates may still use
// it: else the host would wait for the gates and the gates for the host, and its
// rows are issued again; then what sleeps, and what is kept; of each the one that
// goes first in the order of the host's policy. False says that nothing is left.
func (t *table) makeRoom(f *Function, short int64) bool {
	var spare []*Function
	for _, other := range t.functions {
		if other.spareFor(f) < needed && order.Yields(other.item(), f.item()) {
			spare = append(spare, other)
		}
	}
	slices.SortFunc(spare, func(a, b *Function) int {
		return cmp.Or(cmp.Compare(a.spareFor(f), b.spareFor(f)), order.EvictFirst(a.item(), b.item()), cmp.Compare(a.priority, b.priority))
	})
	for _, other := range spare {
		if short <= 0 {
			break
		}
		if other.evict == stays {
			t.evict(other, pressure)
		}
		short -= t.memory.whole(other)
	}
	return len(spare) > 0
}

// The order in which functions make room for others.
const (
	resting = iota
	retired
	sleeping
	inReserve
	needed
)

// spareFor returns how well a function can do without its memory, which another one needs.
func (f *Function) spareFor(other *Function) int {
	switch {
	case f == other:
		return needed
	case f.want == nothing && f.receiving == nil:
		return resting
	case other.want == kept:
		return needed
	case f.want == nothing:
		return retired
	case f.want == cold && f.sleeps():
		return sleeping
	case f.want == kept && f.state.Phase != isRefused:
		return inReserve
	}
	return needed
}

// reserve refuses to load a function that is to be kept into memory that others need.
func (t *table) reserve(f *Function) error {
	if f.want != kept || t.fits(f) {
		return nil
	}
	return fmt.Errorf("%w: functions that take rows need it", errNoRoom)
}

// fits reports whether the functions that are wanted here leave room for another one.
func (t *table) fits(f *Function) bool {
	if !t.memory.bounded() {
		return true
	}
	need, room := t.needs(f, false)
	return need <= room
}

// needs returns the bytes of a function, and those that the device has for it: what the
// other functions leave that cannot make room for it. A device that was out of memory has
// what the others hold.
func (t *table) needs(f *Function, outOfMemory bool) (need, room int64) {
	others := map[forward.ExpertID]bool{}
	for _, other := range t.functions {
		if other != f && other.loads() && other.state.Phase != isRefused && other.spareFor(f) == needed {
			other.eachExpert(func(id forward.ExpertID) { others[id] = true })
		}
	}
	var used int64
	for id := range others {
		used += t.memory.size(id)
	}
	f.eachExpert(func(id forward.ExpertID) {
		if !others[id] {
			need += t.memory.size(id)
		}
	})
	if outOfMemory {
		return need, used
	}
	return need, max(0, t.Device.Memory().Budget-used)
}
