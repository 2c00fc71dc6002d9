package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// slot has one call of Run at a time. Whoever takes an item of it may read f, n and kind, which stay until the item is
// done; workers that come too late find none left.
type slot struct {
	left    atomic.Int64 // items that are free; below 1: none
	_       line
	pending atomic.Int64 // items not finished
	parked  atomic.Bool  // the caller waits for ready
	_       line
	f       func(int)
	n       int64
	kind    int
	failed  atomic.Pointer[Panic] // the first item's
	ready   chan struct{}
	_       line
}

// Panic is what Run panics with when an item did.
type Panic struct {
	Value any
	Stack []byte // of the item
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in a pool's item: %v", p.Value) }

// drain runs items until none is free, or one of a Spare is done and others wait. It reports whether it
// finished the last one.
func (s *slot) drain(others func() bool) (last bool) {
	for s.left.Load() > 0 {
		left := s.left.Add(-1)
		if left < 0 {
			return last
		}
		kind := s.kind // a later call's may be another
		s.call(int(s.n - 1 - left))
		last = s.pending.Add(-1) == 0
		if kind == spare && others != nil && others() {
			return last
		}
	}
	return last
}

// call runs an item. Its panic must not end the process from a worker, where
// nobody can recover, nor keep Run's caller waiting for good.
func (s *slot) call(i int) {
	defer func() {
		if v := recover(); v != nil {
			s.failed.CompareAndSwap(nil, &Panic{v, debug.Stack()})
		}
	}()
	s.f(i)
}

// wait returns when all items are finished: it looks for a while, then parks.
func (s *slot) wait(p *Pool) {
	p.look(spin, func() bool { return s.pending.Load() == 0 })
	for s.pending.Load() != 0 {
		s.parked.Store(true)
		if s.pending.Load() == 0 && s.parked.CompareAndSwap(true, false) {
			return
		}
		<-s.ready
	}
}

// finish tells a caller that has parked, and lets it run here. It may be a later one than whose item was the last: wait
// looks again.
func (s *slot) finish() {
	if s.parked.Load() && s.parked.CompareAndSwap(true, false) {
		s.ready <- struct{}{}
		runtime.Gosched()
	}
}
