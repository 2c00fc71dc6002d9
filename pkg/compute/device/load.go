package device

import (
	"context"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/policy/residency"
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
	return t
}

func (s *Store[E]) want(sl *slot[E], t *Ticket, priority int64) {
	u := sl.unit()
	if s.tier.Phase(u) == residency.Cold {
		sl.bytes, sl.wanted, sl.began = t.Bytes, time.Now(), time.Time{}
	}
	sl.waiting = append(sl.waiting, t)
	s.tier.Want(want(u, t.Bytes, priority))
	s.act()
	if s.tier.Phase(u) != residency.Cold {
		sl.failure = nil
	}
	if s.tier.Phase(u) != residency.Held {
		s.urge()
	}
}

// urge tells the loads that run that something more urgent may have come.
func (s *Store[E]) urge() {
	for _, sl := range s.runs {
		select {
		case sl.urged <- struct{}{}:
		default: // it has a note already
		}
	}
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
		sl.uses.Add(-1)
		s.tier.Release(sl.unit())
	case over:
	}
	s.act()
	s.end(sl)
}

// cancel is release for a load that has not ended.
func (s *Store[E]) cancel(sl *slot[E], t *Ticket) {
	s.mu.Lock()
	defer s.unlock()
	if t.place == waiting {
		s.leave(sl, t)
		s.act()
	}
}

// leave takes a ticket from an expert that is not warm yet. The last one ends the load.
func (s *Store[E]) leave(sl *slot[E], t *Ticket) {
	at := slices.Index(sl.waiting, t)
	sl.waiting = slices.Delete(sl.waiting, at, at+1)
	t.end(ErrCancelled)
	s.tier.Release(sl.unit())
	if s.tier.Phase(sl.unit()) == residency.Cold { // else its bytes are free when the loader has returned
		s.tell(sl, ErrCancelled)
	}
}

// end frees what nobody holds when the store is closed.
func (s *Store[E]) end(sl *slot[E]) {
	if s.closed {
		s.tier.Evict(sl.unit())
		s.act()
	}
}

// act does what the machine says until there is nothing to do.
func (s *Store[E]) act() {
	for a, ok := s.tier.Next(); ok; a, ok = s.tier.Next() {
		sl := s.at(a.Unit)
		switch a.Kind {
		case residency.Load:
			s.begin(sl)
		case residency.Cancel:
			sl.cancel()
		case residency.Evict:
			s.evict(sl)
		case residency.Ready:
			sl.uses.Add(int64(len(sl.waiting)))
			s.endAll(sl, nil)
		case residency.Refuse:
			err := &RefusedError{ID: sl.id, Need: a.Bytes, Room: a.Room, Budget: s.settings.Budget}
			s.endAll(sl, err)
			s.tell(sl, err)
		case residency.Resume:
			close(sl.resume)
		}
	}
}

func (s *Store[E]) endAll(sl *slot[E], err error) {
	for _, t := range sl.waiting {
		t.end(err)
	}
	sl.waiting = nil
}

// begin runs a load.
//
//nolint:contextcheck,nolintlint // a load outlives the call that asks for it; it has a context of its own
func (s *Store[E]) begin(sl *slot[E]) {
	ctx, cancel := context.WithCancel(context.Background())
	sl.cancel, sl.began, sl.urged = cancel, time.Now(), make(chan struct{}, 1)
	s.runs = append(s.runs, sl)
	s.loads.Go(func() { s.load(ctx, sl) })
}

func (s *Store[E]) load(ctx context.Context, sl *slot[E]) {
	weights, err := s.fetch(ctx, sl)
	s.mu.Lock()
	defer s.unlock()
	cancelled, u := ctx.Err() != nil, sl.unit()
	sl.cancel()
	s.runs = slices.DeleteFunc(s.runs, func(one *slot[E]) bool { return one == sl })
	switch {
	case err == nil: // if it was cancelled too late, nobody holds it
		sl.weights = weights
		sl.uses.Store(1)
		s.tell(sl, nil)
		s.tier.Loaded(u)
	case cancelled:
		s.stopped(sl)
	default:
		sl.failure = &FailedError{ID: sl.id, Err: err}
		s.endAll(sl, sl.failure)
		s.tell(sl, sl.failure)
		s.tier.Failed(u)
	}
	s.act()
	s.end(sl)
}

// fetch loads weights, in pieces if the loader can.
func (s *Store[E]) fetch(ctx context.Context, sl *slot[E]) (weights E, err error) {
	err = safetensors.Guarded(func() (err error) {
		if p, ok := s.loader.(Piecewise[E]); ok {
			weights, err = p.LoadInPieces(ctx, sl.id, Pieces{
				Next: func() <-chan struct{} { return s.piece(sl) }, Urged: sl.urged, Demanded: func() bool { return s.demanded(sl) },
			})
			return err
		}
		weights, err = s.loader.Load(ctx, sl.id)
		return err
	})
	return weights, err
}

func (s *Store[E]) demanded(sl *slot[E]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tier.Urgency(sl.unit()) == residency.Demanded
}

// piece reports whether a load goes on; if not, it does when what it returns is closed.
func (s *Store[E]) piece(sl *slot[E]) <-chan struct{} {
	s.mu.Lock()
	defer s.unlock()
	if s.tier.Piece(sl.unit()) {
		return nil
	}
	resume := make(chan struct{})
	sl.resume = resume
	s.act()
	return resume
}

// stopped is for a load that was cancelled; it may be wanted again meanwhile.
func (s *Store[E]) stopped(sl *slot[E]) {
	if len(sl.waiting) == 0 {
		s.tell(sl, ErrCancelled)
	}
	s.tier.Stopped(sl.unit())
}
