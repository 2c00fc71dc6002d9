package device

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// Load makes an expert warm and holds it; see Device.
func (s *Store[E]) Load(ctx context.Context, id forward.ExpertID, priority int64) *Ticket {
	t := &Ticket{ID: id, done: make(chan struct{}), release: func() {}}
	bytes, err := s.Size(id)
	if err != nil {
		t.end(&FailedError{ID: id, Err: err})
		return t
	}
	t.Bytes = bytes
	s.mu.Lock()
	defer s.unlock()
	if s.closed || ctx.Err() != nil {
		t.end(ErrCancelled)
		return t
	}
	sl := s.slot(id)
	t.release = func() { s.release(sl, t) }
	s.want(sl, t, priority)
	if t.place == waiting {
		t.unwatch = context.AfterFunc(ctx, func() { s.cancel(sl, t) })
	}
	s.start()
	return t
}

// want adds a ticket to an expert, and the expert to the queue if it is cold.
func (s *Store[E]) want(sl *slot[E], t *Ticket, priority int64) {
	switch sl.phase {
	case slotWarm:
		s.hold(sl)
		t.end(nil)
		return
	case slotCold:
		sl.wanted, sl.began = time.Now(), time.Time{}
		if err := s.reserve(sl, t.Bytes); err != nil {
			t.end(err)
			s.tell(sl, t.Bytes, err)
			return
		}
		sl.failure = nil
		s.enqueue(sl, priority)
	case slotQueued:
		if priority >= sl.priority {
			s.dequeue(sl)
			s.enqueue(sl, priority)
		}
	case slotLoading: // counts if the load, being cancelled, has to begin again
		sl.priority = max(sl.priority, priority)
	}
	sl.waiting = append(sl.waiting, t)
}

// hold counts a ticket of a warm expert.
func (s *Store[E]) hold(sl *slot[E]) {
	sl.uses.Add(1)
	sl.holds++
	delete(s.idle, sl)
}

// Pin holds an expert that is warm; nil if it is not.
func (s *Store[E]) Pin(id forward.ExpertID) *Ticket {
	sl := s.slot(id)
	if sl == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.phase != slotWarm {
		return nil
	}
	t := &Ticket{ID: id, Bytes: sl.bytes, done: make(chan struct{})}
	t.release = func() { s.release(sl, t) }
	s.hold(sl)
	t.end(nil)
	return t
}

// release gives back what a ticket refers to, if it does so still.
func (s *Store[E]) release(sl *slot[E], t *Ticket) {
	s.mu.Lock()
	defer s.unlock()
	switch t.place {
	case waiting:
		s.leave(sl, t)
	case holding:
		t.place = over
		s.unhold(sl)
	case over:
	}
	s.start()
}

// cancel is release for a load that has not ended.
func (s *Store[E]) cancel(sl *slot[E], t *Ticket) {
	s.mu.Lock()
	defer s.unlock()
	if t.place == waiting {
		s.leave(sl, t)
	}
}

func (s *Store[E]) unhold(sl *slot[E]) {
	sl.uses.Add(-1)
	if sl.holds--; sl.holds == 0 {
		s.rest(sl)
	}
}

// rest makes a warm expert without tickets one that may be evicted.
func (s *Store[E]) rest(sl *slot[E]) {
	s.clock++
	sl.released = s.clock
	s.idle[sl] = struct{}{}
	if s.closed {
		s.drop(sl)
	}
}

// leave takes a ticket from an expert that is not warm yet. The last one ends the load.
func (s *Store[E]) leave(sl *slot[E], t *Ticket) {
	at := slices.Index(sl.waiting, t)
	sl.waiting = slices.Delete(sl.waiting, at, at+1)
	t.end(ErrCancelled)
	if len(sl.waiting) > 0 {
		return
	}
	if sl.phase == slotQueued {
		s.dequeue(sl)
		s.forget(sl, ErrCancelled)
		return
	}
	sl.cancel() // its bytes are free when the loader has returned
}

// enqueue makes an expert wait for its load, as the next one of its priority.
func (s *Store[E]) enqueue(sl *slot[E], priority int64) {
	s.clock++
	sl.phase, sl.priority, sl.order = slotQueued, priority, s.clock
	at, _ := slices.BinarySearchFunc(s.queue, sl, byRank)
	s.queue = slices.Insert(s.queue, at, sl)
}

func (s *Store[E]) dequeue(sl *slot[E]) {
	at, _ := slices.BinarySearchFunc(s.queue, sl, byRank)
	s.queue = slices.Delete(s.queue, at, at+1)
}

func byRank[E any](a, b *slot[E]) int {
	return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.order, b.order))
}

// start begins as many loads as may run.
//
//nolint:contextcheck,nolintlint // a load outlives the call that asks for it; it has a context of its own
func (s *Store[E]) start() {
	for s.running < s.settings.Loads && len(s.queue) > 0 {
		sl := s.queue[len(s.queue)-1]
		s.dequeue(sl)
		ctx, cancel := context.WithCancel(context.Background())
		sl.phase, sl.cancel, sl.began = slotLoading, cancel, time.Now()
		s.running++
		s.loads.Go(func() { s.load(ctx, sl) })
	}
}

// load runs one load to its end.
func (s *Store[E]) load(ctx context.Context, sl *slot[E]) {
	weights, err := s.loader.Load(ctx, sl.id)
	s.mu.Lock()
	defer s.unlock()
	cancelled := ctx.Err() != nil
	sl.cancel()
	s.running--
	switch {
	case err == nil: // if it was cancelled too late, nobody holds it
		s.warmed(sl, weights)
	case cancelled && len(sl.waiting) > 0: // wanted again meanwhile
		s.enqueue(sl, sl.priority)
	case cancelled:
		s.forget(sl, ErrCancelled)
	default:
		s.failed(sl, err)
	}
	s.start()
}

func (s *Store[E]) warmed(sl *slot[E], weights E) {
	sl.phase, sl.weights, sl.holds = slotWarm, weights, len(sl.waiting)
	sl.uses.Store(int64(1 + sl.holds))
	for _, t := range sl.waiting {
		t.end(nil)
	}
	sl.waiting = nil
	s.tell(sl, sl.bytes, nil)
	if sl.holds == 0 {
		s.rest(sl)
	}
}

func (s *Store[E]) failed(sl *slot[E], err error) {
	sl.failure = &FailedError{ID: sl.id, Err: err}
	for _, t := range sl.waiting {
		t.end(sl.failure)
	}
	sl.waiting = nil
	s.forget(sl, sl.failure)
}

// forget gives the bytes of a load back that did not end warm.
func (s *Store[E]) forget(sl *slot[E], err error) {
	s.tell(sl, sl.bytes, err)
	s.used -= sl.bytes
	sl.phase, sl.bytes = slotCold, 0
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
	s.unlock()
	s.loads.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for sl := range s.idle {
		s.drop(sl)
	}
}
