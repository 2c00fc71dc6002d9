package loads

import (
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
)

// Bounds of what a Queue keeps.
const (
	queueHints = 256
	queueBytes = 1 << 20
)

// HintQueue keeps messages with hints until somebody uses them: a new one takes the place of the
// oldest. What fills it never waits. It is safe for concurrent use.
type HintQueue struct {
	note chan struct{}

	mu      sync.Mutex
	waiting [][]byte // oldest first
	bytes   int
}

// NewHintQueue returns an empty queue.
func NewHintQueue() *HintQueue { return &HintQueue{note: make(chan struct{}, 1)} }

// Note has a signal when there is something to take.
func (q *HintQueue) Note() <-chan struct{} { return q.note }

// Put takes a message in, and returns how many older ones were dropped for it.
func (q *HintQueue) Put(body []byte) (dropped int) {
	q.mu.Lock()
	q.waiting = append(q.waiting, body)
	q.bytes += len(body)
	for len(q.waiting) > 1 && (len(q.waiting) > queueHints || q.bytes > queueBytes) {
		q.next()
		dropped++
	}
	q.mu.Unlock()
	pause.Wake(q.note)
	return dropped
}

// Take returns the oldest message; false when none is left.
func (q *HintQueue) Take() ([]byte, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, false
	}
	return q.next(), true
}

// next removes the oldest; q.mu is held and there is one.
func (q *HintQueue) next() []byte {
	body := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.bytes -= len(body)
	return body
}
