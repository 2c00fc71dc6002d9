package device

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Idle is a warm expert without tickets, as Settings.EvictFirst sees it.
type Idle struct {
	ID    forward.ExpertID
	Bytes int64
	// Released is larger, the later its last ticket was released.
	Released uint64
}

// LeastRecentlyReleased evicts first what nobody has held for the longest.
func LeastRecentlyReleased(a, b Idle) int { return cmp.Compare(a.Released, b.Released) }

// reserve takes bytes of the budget for an expert, and evicts others if it must.
// If they do not suffice it evicts none.
func (s *Store[E]) reserve(sl *slot[E], need int64) error {
	if s.settings.Budget > 0 && need > s.settings.Budget-s.used {
		if room := s.settings.Budget - s.used + s.evictable(); need > room {
			return s.refusal(sl, need, room)
		}
		s.evictFor(need)
		if room := s.settings.Budget - s.used; need > room { // computations took some back
			return s.refusal(sl, need, room)
		}
	}
	s.used += need
	sl.bytes = need
	return nil
}

func (s *Store[E]) refusal(sl *slot[E], need, room int64) error {
	return &RefusedError{ID: sl.id, Need: need, Room: room, Budget: s.settings.Budget}
}

// evictable is the bytes that nobody uses.
func (s *Store[E]) evictable() (bytes int64) {
	for sl := range s.idle {
		if sl.uses.Load() == 1 {
			bytes += sl.bytes
		}
	}
	return bytes
}

// evictFor drops idle experts in their order until there is room.
func (s *Store[E]) evictFor(need int64) {
	order := make([]*slot[E], 0, len(s.idle))
	for sl := range s.idle {
		order = append(order, sl)
	}
	slices.SortFunc(order, func(a, b *slot[E]) int {
		return cmp.Or(s.settings.EvictFirst(a.asIdle(), b.asIdle()), cmp.Compare(a.released, b.released))
	})
	for _, sl := range order {
		if need <= s.settings.Budget-s.used {
			return
		}
		s.drop(sl)
	}
}

func (sl *slot[E]) asIdle() Idle { return Idle{ID: sl.id, Bytes: sl.bytes, Released: sl.released} }

// drop frees an idle expert, unless something computes with it.
func (s *Store[E]) drop(sl *slot[E]) bool {
	if !sl.uses.CompareAndSwap(1, 0) {
		return false
	}
	s.loader.Free(sl.weights)
	var none E
	sl.weights, sl.phase = none, slotCold
	s.used -= sl.bytes
	sl.bytes = 0
	delete(s.idle, sl)
	return true
}

// Evict frees an expert that nobody uses; see Device.
func (s *Store[E]) Evict(id forward.ExpertID) error {
	sl := s.slot(id)
	if sl == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tickets := sl.holds + len(sl.waiting)
	if tickets > 0 || sl.phase == slotWarm && !s.drop(sl) {
		return &HeldError{ID: id, Tickets: tickets}
	}
	return nil
}
