// Package pool runs pieces of work on a bounded set of threads.
//
// An item should take at most about 200 µs: Go cannot preempt assembly, so a
// long item delays the messages that the same process handles.
package pool

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is a fixed set of workers. It is safe for concurrent use: callers work
// on their own items, so each makes progress even when all workers are busy.
type Pool struct {
	threads int
	offers  chan *job
	spares  chan *job // of Spare
	jobs    sync.Pool // of *job
	workers sync.WaitGroup
	looking atomic.Int32 // workers that spin
	closing sync.Once
	done    chan struct{}
}

// job is one call of Run.
type job struct {
	f       func(int)
	n       int64
	next    atomic.Int64 // the next item that is free
	pending atomic.Int64 // items not finished
	users   atomic.Int32 // the caller and the workers that may look at the job
	ready   chan struct{}
	failed  atomic.Pointer[Panic] // the first item's
	spare   bool
}

// Panic is what Run panics with when an item did.
type Panic struct {
	Value any
	Stack []byte // of the item
}

// Error has the value that the item panicked with.
func (p *Panic) Error() string { return fmt.Sprintf("panic in a pool's item: %v", p.Value) }

// New starts threads-1 workers; the caller of Run is the last thread.
func New(threads int) *Pool {
	threads = max(threads, 1)
	p := &Pool{threads: threads, offers: make(chan *job, 4*threads), spares: make(chan *job, 4*threads), done: make(chan struct{})}
	for range threads - 1 {
		p.workers.Go(p.work)
	}
	return p
}

// Threads is the number of threads that one Run uses at most.
func (p *Pool) Threads() int { return p.threads }

// Awake says whether a worker looks for work just now, so that short work is worth a Run.
func (p *Pool) Awake() bool { return p.looking.Load() > 0 }

// Close stops the workers after their current items. Run still works, on its
// caller alone.
func (p *Pool) Close() {
	p.closing.Do(func() { close(p.done) })
	p.workers.Wait()
}

// Run calls f(0) to f(n-1) and returns when all have returned. When one
// panics, Run does on its caller's goroutine: with a *Panic, where it had threads.
func (p *Pool) Run(n int, f func(i int)) { p.run(n, f, false) }

// Spare is Run for work that may take long: workers take it only when no Run waits for them, and leave it after an
// item when one does.
func (p *Pool) Spare(n int, f func(i int)) { p.run(n, f, true) }

func (p *Pool) run(n int, f func(i int), spare bool) {
	if n <= 1 || p.threads == 1 {
		for i := range n {
			f(i)
		}
		return
	}
	j, ok := p.jobs.Get().(*job)
	if !ok {
		j = &job{ready: make(chan struct{}, 1)}
	}
	j.f, j.n, j.spare = f, int64(n), spare
	j.next.Store(0)
	j.pending.Store(int64(n))
	j.users.Store(1)
	p.offer(j, min(n, p.threads)-1)
	if !j.drain(nil) {
		look(func() bool { return len(j.ready) > 0 })
		<-j.ready
	}
	failed := j.failed.Swap(nil)
	p.release(j)
	if failed != nil {
		panic(failed)
	}
}

// offer invites workers. When the queue is full they are all busy, and the caller does it alone.
func (p *Pool) offer(j *job, helpers int) {
	to := p.offers
	if j.spare {
		to = p.spares
	}
	for range helpers {
		j.users.Add(1)
		select {
		case to <- j:
		default:
			j.users.Add(-1)
			return
		}
	}
}

// spin is how long a thread looks for what it waits for before it parks: the
// steps of a layer follow each other closely, and waking a thread takes about 50 µs.
const spin = 30 * time.Microsecond

func (p *Pool) work() {
	for {
		p.looking.Add(1)
		look(func() bool { return len(p.offers)+len(p.spares) > 0 })
		p.looking.Add(-1)
		j := p.next()
		if j == nil {
			return
		}
		if j.drain(p.offers) {
			j.ready <- struct{}{}
		} else if j.next.Load() < j.n {
			p.offer(j, 1) // it was left
		}
		p.release(j)
	}
}

// next waits for a job, and takes one of Run first; nil: the pool is closed.
func (p *Pool) next() *job {
	select {
	case j := <-p.offers:
		return j
	default:
	}
	select {
	case j := <-p.offers:
		return j
	case j := <-p.spares:
		return j
	case <-p.done:
		return nil
	}
}

// look returns when ready does, or after the spin. It yields to any goroutine
// that can run.
func look(ready func() bool) {
	for start := time.Now(); !ready() && time.Since(start) < spin; {
		runtime.Gosched()
	}
}

// drain runs items until none is free, or, of spare work, until others are offered. It reports whether it
// finished the last one.
func (j *job) drain(others <-chan *job) bool {
	last := false
	for {
		i := j.next.Add(1) - 1
		if i >= j.n {
			return last
		}
		j.call(int(i))
		if last = j.pending.Add(-1) == 0; j.spare && len(others) > 0 {
			return last
		}
	}
}

// call runs an item. Its panic must not end the process from a worker, where
// nobody can recover, nor keep Run's caller waiting for good.
func (j *job) call(i int) {
	defer func() {
		if v := recover(); v != nil {
			j.failed.CompareAndSwap(nil, &Panic{v, debug.Stack()})
		}
	}()
	j.f(i)
}

// release returns the job for reuse when its last user lets go: a worker may
// take a stale offer long after the work is done.
func (p *Pool) release(j *job) {
	if j.users.Add(-1) == 0 {
		j.f = nil
		p.jobs.Put(j)
	}
}
