package device

import (
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// evict frees an expert that the machine gives up, and tells it whether that was done.
func (s *Store[E]) evict(sl *slot[E]) {
	if s.drop(sl) {
		s.tier.Evicted(sl.unit())
	} else {
		s.tier.InUse(sl.unit())
	}
}

// drop frees an expert without tickets, unless something computes with it.
func (s *Store[E]) drop(sl *slot[E]) bool {
	if !sl.uses.CompareAndSwap(1, 0) {
		return false
	}
	s.loader.Free(sl.weights)
	var none E
	sl.weights = none
	return true
}

// Evict frees an expert that nobody uses; see Device.
func (s *Store[E]) Evict(id forward.ExpertID) error {
	sl := s.slot(id)
	if sl == nil {
		return nil
	}
	s.mu.Lock()
	defer s.unlock()
	u := sl.unit()
	s.tier.Evict(u)
	s.act()
	if tickets := s.tier.References(u); tickets > 0 || s.tier.Phase(u) == residency.Held {
		return &HeldError{ID: id, Tickets: tickets}
	}
	return nil
}

// Close ends the store; see Device.
func (s *Store[E]) Close() {
	s.mu.Lock()
	s.closed = true
	for i := range s.slots {
		for sl := &s.slots[i]; len(sl.waiting) > 0; {
			s.leave(sl, sl.waiting[0])
		}
	}
	s.act()
	s.unlock()
	s.loads.Wait()
	s.mu.Lock()
	defer s.unlock()
	for i := range s.slots {
		s.tier.Evict(s.slots[i].unit())
	}
	s.act()
}
