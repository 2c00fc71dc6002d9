package pool

import (
	"math/bits"
	"runtime"
	"time"
)

type worker struct {
	*Pool
	index    int
	wake     chan struct{} // by who has taken its bit out of asleep
	patience patience
	_        line
}

func (w *worker) work() {
	for !w.closed.Load() {
		s := w.find()
		if s == nil {
			w.sleep()
			continue
		}
		w.busy.Add(1)
		w.invite(int(min(s.left.Load(), int64(w.threads))) - 1) // it takes one
		last := s.drain(w.others)
		w.busy.Add(-1) // before the caller knows, who may have more
		if last {
			s.finish()
		}
	}
}

// find looks for a slot with free items for a while.
func (w *worker) find() (s *slot) {
	limit := w.patience.limit(w.steps.Load() == 1)
	took, shared := w.look(limit, func() bool {
		s = w.next(w.index)
		return s != nil || w.closed.Load()
	})
	w.patience.learn(limit, took, s != nil, shared)
	return s
}

// next returns a slot with free items, first of Run; nil: there is none. Workers begin with different slots.
func (p *Pool) next(index int) *slot {
	if s := p.free(urgent, index); s != nil {
		return s
	}
	return p.free(spare, index)
}

// free returns a slot of a kind with free items, or nil.
func (p *Pool) free(kind, index int) *slot {
	for turned := bits.RotateLeft64(p.open[kind].Load(), -index); turned != 0; turned &= turned - 1 {
		if s := &p.slots[(bits.TrailingZeros64(turned)+index)%64]; s.left.Load() > 0 {
			return s
		}
	}
	return nil
}

// others reports whether a Run has free items.
func (p *Pool) others() bool { return p.free(urgent, 0) != nil }

// invite wakes some workers, which wake others, if fewer look for work than are wanted.
func (p *Pool) invite(wanted int) {
	const fan = 2
	for n := min(wanted-p.Awake(), fan); n > 0 && p.wakeOne(); n-- {
	}
}

// wakeOne wakes a worker, the same ones as often as possible; false: all are awake.
func (p *Pool) wakeOne() bool {
	for i := range p.asleep {
		for set := p.asleep[i].Load(); set != 0; set = p.asleep[i].Load() {
			bit := set & -set
			if p.asleep[i].CompareAndSwap(set, set&^bit) {
				p.awake.Add(1)
				p.workers[64*i+bits.TrailingZeros64(bit)].wake <- struct{}{}
				return true
			}
		}
	}
	return false
}

// sleep returns when somebody wakes the worker, or when there is work or an end.
func (w *worker) sleep() {
	word, bit := &w.asleep[w.index/64], uint64(1)<<(w.index%64)
	w.awake.Add(-1)
	word.Or(bit)
	if w.next(w.index) != nil || w.closed.Load() {
		if word.And(^bit)&bit != 0 { // nobody wakes it
			w.awake.Add(1)
			return
		}
	}
	<-w.wake
}

const (
	// spin is how long a thread looks for what it waits for before it parks: the steps of a layer follow each other
	// closely, and it takes some 30 µs to wake a thread, several one after the other.
	spin = 40 * time.Microsecond
	// longSpin is how long a worker looks, at most, while a Run is under way: another one follows when its last items
	// are done. Two threads do without: on a processor that others use, too, the worker would take the caller's place.
	longSpin    = 250 * time.Microsecond
	longThreads = 3
	// A thread that looks yields to other goroutines when yieldAfter times the number of other workers that are awake is
	// past: the scheduler's lock is one for all.
	yieldAfter = 4 * time.Microsecond
	looks      = 8 // between two looks at the clock
	// preempted is so long between two looks at the clock that others have had the processor.
	preempted = 500 * time.Microsecond
)

// look returns when ready does, or when it has looked for limit. It says how long it did, and whether others had its
// processor meanwhile.
func (p *Pool) look(limit time.Duration, ready func() bool) (past time.Duration, shared bool) {
	start := time.Now()
	end, every := limit, time.Duration(p.awake.Load()-1)*yieldAfter
	yield := every
	for i := 1; !ready(); i++ {
		pause()
		if i%looks != 0 {
			continue
		}
		before := past
		past = time.Since(start)
		shared = shared || past-before > preempted
		if past > end {
			return past, shared
		}
		if p.threads >= longThreads && p.open[urgent].Load() != 0 {
			end = max(end, min(past+spin, longSpin))
		}
		if past >= yield {
			runtime.Gosched()
			past = time.Since(start) // other goroutines' time is no sign of other processes
			yield = past + every
		}
	}
	return past, shared
}
