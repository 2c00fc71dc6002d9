package predictor

import (
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
)

// Bounds of what waits to be predicted. Predictions of old rows are worth little,
// so the oldest are dropped for new ones.
const (
	backlogMessages = 256
	backlogBytes    = 32 << 20
)

// backlog is what came and was not predicted from yet. What fills it never waits.
type backlog[T any] struct {
	note chan struct{} // has room for one: there is something

	mu      sync.Mutex
	waiting []sized[T] // oldest first
	bytes   int
}

// sized is one of a backlog with its bytes.
type sized[T any] struct {
	of    T
	bytes int
}

func newBacklog[T any]() *backlog[T] { return &backlog[T]{note: make(chan struct{}, 1)} }

// put takes something in, and returns how many older ones were dropped for it.
func (b *backlog[T]) put(one T, bytes int) (dropped int) {
	b.mu.Lock()
	b.waiting = append(b.waiting, sized[T]{one, bytes})
	b.bytes += bytes
	for len(b.waiting) > 1 && (len(b.waiting) > backlogMessages || b.bytes > backlogBytes) {
		b.next()
		dropped++
	}
	b.mu.Unlock()
	pause.Wake(b.note)
	return dropped
}

// take returns the oldest; false if none waits.
func (b *backlog[T]) take() (one T, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return one, false
	}
	return b.next(), true
}

// next removes the oldest; b.mu is held and there is one.
func (b *backlog[T]) next() T {
	first := b.waiting[0]
	b.waiting[0] = sized[T]{}
	b.waiting = b.waiting[1:]
	b.bytes -= first.bytes
	return first.of
}
