package delivery

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
)

// timers are what is to be done about requests after a while. What is noted
// again before it is due is noted once. A bounded number of entries waits and
// a bounded number is worked on, however many messages ask for them.
type timers struct {
	limit int
	slots chan struct{}
	wake  chan struct{}

	mu    sync.Mutex
	byKey map[string]*entry
	due   entries
}

type entry struct {
	key string
	at  time.Time
	do  func(context.Context)
	pos int // in the heap
}

func newTimers(limit, atOnce int) *timers {
	return &timers{limit: limit, slots: make(chan struct{}, atOnce), wake: make(chan struct{}, 1), byKey: map[string]*entry{}}
}

// note has something done after a while. It is false when the same is noted
// already, or when too much waits.
func (a *timers) note(key string, after time.Duration, do func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey[key] != nil || len(a.due) >= a.limit {
		return false
	}
	e := &entry{key: key, at: time.Now().Add(after), do: do}
	a.byKey[key] = e
	heap.Push(&a.due, e)
	if e.pos == 0 {
		pause.Wake(a.wake)
	}
	return true
}

// forget takes out what is not due yet.
func (a *timers) forget(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.byKey[key]; e != nil {
		delete(a.byKey, key)
		heap.Remove(&a.due, e.pos)
	}
}

// next takes out what is due, or says how long nothing is.
func (a *timers) next(now time.Time) (e *entry, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.due) == 0 {
		return nil, time.Hour // note wakes up
	}
	if wait = a.due[0].at.Sub(now); wait > 0 {
		return nil, wait
	}
	e, _ = heap.Pop(&a.due).(*entry)
	delete(a.byKey, e.key)
	return e, 0
}

// run does what is due until ctx ends.
func (a *timers) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	for {
		e, wait := a.next(time.Now())
		if e == nil {
			select {
			case <-ctx.Done():
				return
			case <-a.wake:
			case <-time.After(wait):
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case a.slots <- struct{}{}:
			working.Go(func() { defer func() { <-a.slots }(); e.do(ctx) })
		}
	}
}

// entries is a heap by time.
type entries []*entry

// Len implements heap.Interface.
func (h entries) Len() int { return len(h) }

// Less implements heap.Interface: what is due first is before others.
func (h entries) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements heap.Interface.
func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	e, _ := x.(*entry)
	e.pos = len(*h)
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
