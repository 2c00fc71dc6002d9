// Package pool runs pieces of work on a bounded set of threads.
//
// An item should take at most about 200 µs, or yield so often: Go cannot preempt assembly, so a
// long item delays the messages that the same process handles.
package pool

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Pool is a fixed set of workers. It is safe for concurrent use: callers work
// on their own items, so each makes progress even when all workers are busy.
type Pool struct {
	threads int
	slots   []slot
	workers []worker
	asleep  []atomic.Uint64 // a bit of each worker
	closing sync.Once
	closed  atomic.Bool
	ended   sync.WaitGroup

	_     line
	used  atomic.Uint64 // slots that callers have
	_     line
	open  [kinds]word  // slots with jobs under way
	awake atomic.Int32 // workers that do not sleep
	_     line
	busy  atomic.Int32 // workers that have items
	_     line
	steps atomic.Int32 // under way
	_     line
}

// line keeps what several threads write apart from what others read.
type line [64]byte

type word struct {
	atomic.Uint64
	_ line
}

// The kinds of jobs, in the order in which workers take them.
const (
	urgent = iota // of Run
	spare         // of Spare
	kinds
)

// New starts threads-1 workers; the caller of Run is the last thread.
func New(threads int) *Pool {
	threads = max(threads, 1)
	p := &Pool{threads: threads, workers: make([]worker, threads-1), asleep: make([]atomic.Uint64, threads/64+1), slots: make([]slot, min(64, 4*threads))}
	for i := range p.slots {
		p.slots[i].ready = make(chan struct{}, 1)
	}
	p.awake.Store(int32(threads - 1))
	for i := range p.workers {
		p.workers[i] = worker{Pool: p, index: i, wake: make(chan struct{}, 1)}
		p.ended.Go(p.workers[i].work)
	}
	return p
}

// Threads returns the number of threads that one Run uses at most.
func (p *Pool) Threads() int { return p.threads }

// Awake returns how many workers look for work just now, so that short work is worth a Run.
func (p *Pool) Awake() int { return max(0, int(p.awake.Load()-p.busy.Load())) }

// BeginStep says that work comes in parts that follow each other, until EndStep. While there is one such step, workers
// look longer for its next part; of several each is the others' work meanwhile. A nil pool has no workers.
func (p *Pool) BeginStep() { p.step(1) }

// EndStep ends what BeginStep began.
func (p *Pool) EndStep() { p.step(-1) }

// Steps returns how many steps are under way.
func (p *Pool) Steps() int { return int(p.steps.Load()) }

func (p *Pool) step(more int32) {
	if p != nil {
		p.steps.Add(more)
	}
}

// Close stops the workers after their current items. Run still works, on its
// caller alone.
func (p *Pool) Close() {
	p.closing.Do(func() {
		p.closed.Store(true)
		for p.wakeOne() {
		}
	})
	p.ended.Wait()
}

// Run calls f(0) to f(n-1) and returns when all have returned. When one
// panics, Run does on its caller's goroutine: with a *Panic, where it had threads.
func (p *Pool) Run(n int, f func(i int)) { p.run(n, f, urgent) }

// Spare is Run for work that may take long: workers take it only when no Run waits for them, and leave it after an
// item when one does.
func (p *Pool) Spare(n int, f func(i int)) { p.run(n, f, spare) }

func (p *Pool) run(n int, f func(i int), kind int) {
	var s *slot
	var bit uint64
	if n > 1 && p.threads > 1 {
		s, bit = p.take()
	}
	if s == nil {
		for i := range n {
			f(i)
		}
		return
	}
	s.f, s.n, s.kind = f, int64(n), kind
	s.pending.Store(int64(n))
	s.left.Store(int64(n))
	p.open[kind].Or(bit)
	p.invite(min(n, p.threads) - 1)
	if !s.drain(nil) {
		s.wait(p)
	}
	p.open[kind].And(^bit)
	s.f = nil
	failed := s.failed.Swap(nil)
	p.used.And(^bit)
	if failed != nil {
		panic(failed)
	}
}

// take finds a slot that nobody has; nil: so many calls are under way that the workers are all busy.
func (p *Pool) take() (*slot, uint64) {
	for {
		u := p.used.Load()
		i := bits.TrailingZeros64(^u)
		if i >= len(p.slots) {
			return nil, 0
		}
		if p.used.CompareAndSwap(u, u|1<<i) {
			return &p.slots[i], 1 << i
		}
	}
}
