package expert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// What nobody needs stays in memory, because it may be needed again: a function
// that was retired rests, and one that is wanted cold stays warm after its rows.
// Both go when their time is over, or earlier when others need the room.

// eviction is why a function's memory is to be freed.
type eviction string

const (
	stays    eviction = ""
	expired  eviction = "expired"  // nobody needed it for the keep-alive time
	pressure eviction = "pressure" // others need the room
)

// rests says whether a function that is wanted no more stays in memory; s.mu is held.
func (s *Service) rests(f *function, now time.Time) bool {
	return f.evict == stays && !s.leaving && now.Sub(f.unused) < s.config.KeepAlive
}

// expire frees what nobody has needed for long.
func (s *Service) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.functions {
		idle := f.want == nothing && f.receiving == nil || f.want == cold && !f.offloaded && f.sleeps()
		if idle && f.evict == stays && !s.rests(f, now) {
			s.evict(f, expired)
		}
	}
}

// sleeps says that a function is warm, and that no rows are under way or wait; the
// service's mu is held.
func (f *function) sleeps() bool {
	return f.state.Phase == isWarm && f.busy.Load() == 0 && f.waits == 0
}

// evict lets a function's memory be freed; s.mu is held.
func (s *Service) evict(f *function, why eviction) {
	s.giveBack(f)
	f.evict = why
	if f.want == nothing {
		f.drop = true
	}
	f.interrupt()
	s.kick(f)
}

// lay says whether a function that has left its group rests from now on. One that
// is wanted again meanwhile has its experts still.
func (s *Service) lay(f *function) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.drop = false
	if f.want == nothing && !s.rests(f, time.Now()) {
		return false
	}
	f.roused = f.want == cold // it is warm
	s.warmedUp(f)
	if f.want != nothing {
		s.kick(f)
	}
	return true
}

// vacate frees the memory of a function that the plan still has here: one that is
// wanted cold sleeps until the next rows, one that is kept waits for room.
func (s *Service) vacate(f *function) (wait time.Duration) {
	s.mu.Lock()
	joined := f.want == kept && f.receiving != nil
	s.mu.Unlock()
	if joined { // though gates may still use it
		s.leave(f)
	}
	if !s.leaveMemory(f) {
		return 0
	}
	f.release(s.device)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retryRefused()
	if f.want == kept {
		return keepRetry
	}
	s.kick(f) // rows may have come
	return 0
}

// leaveMemory says whether a function still may be evicted, and then tells that it was.
func (s *Service) leaveMemory(f *function) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := f.evict
	f.evict = stays
	state := &pb.FunctionState{Id: f.spec.Id, Phase: isCold, Joined: f.receiving != nil}
	switch {
	case f.want == cold && f.sleeps():
	case f.want == kept:
		state.Phase, state.Reason = isRefused, "its memory is needed by functions that take rows"
	default:
		return false
	}
	s.metrics.Hosts.Evicted(string(why))
	f.roused, f.warmed = false, make(chan struct{})
	s.say(f, state)
	return true
}

// makeRoom frees memory for a function that is so many bytes short: first what
// rests; then what is retired, though gates may still use
// it: else the host would wait for the gates and the gates for the host, and its
// rows are issued again; then what sleeps, and what is kept; of each the one that
// goes first in the order of the host's policy. False says that nothing is left.
func (s *Service) makeRoom(f *function, short int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var spare []*function
	for _, other := range s.functions {
		if other.spareFor(f) < needed && s.order().Yields(other.item(), f.item()) {
			spare = append(spare, other)
		}
	}
	slices.SortFunc(spare, func(a, b *function) int {
		return cmp.Or(cmp.Compare(a.spareFor(f), b.spareFor(f)), s.order().EvictFirst(a.item(), b.item()), cmp.Compare(a.priority, b.priority))
	})
	for _, other := range spare {
		if short <= 0 {
			break
		}
		if other.evict == stays {
			s.evict(other, pressure)
		}
		other.eachExpert(func(id forward.ExpertID) { short -= s.size(id) })
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

// spareFor is how well a function can do without its memory, which another one
// needs; the service's mu is held.
func (f *function) spareFor(other *function) int {
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
func (s *Service) reserve(f *function) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.want != kept || s.fits(f) {
		return nil
	}
	return fmt.Errorf("%w: functions that take rows need it", errNoRoom)
}

// fits says whether the functions that are wanted here leave room for another one;
// s.mu is held.
func (s *Service) fits(f *function) bool {
	if s.device.Memory().Budget == 0 {
		return true
	}
	need, room := s.needs(f, false)
	return need <= room
}
