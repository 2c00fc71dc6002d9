package predictor

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/notify"
)

// Bounds of what waits to be predicted. Predictions of old rows are worth little,
// so the oldest are dropped for new ones.
const (
	backlogMessages = 256
	backlogBytes    = 32 << 20
)

// backlog is the rows that came and were not predicted yet. What fills it never waits.
type backlog struct {
	note chan struct{} // has room for one: there is something

	mu      sync.Mutex
	waiting []*nats.Msg // oldest first
	bytes   int
}

func newBacklog() *backlog { return &backlog{note: make(chan struct{}, 1)} }

// put takes a message in, and returns how many older ones were dropped for it.
func (b *backlog) put(m *nats.Msg) (dropped int) {
	b.mu.Lock()
	b.waiting = append(b.waiting, m)
	b.bytes += len(m.Data)
	for len(b.waiting) > 1 && (len(b.waiting) > backlogMessages || b.bytes > backlogBytes) {
		b.next()
		dropped++
	}
	b.mu.Unlock()
	notify.Send(b.note)
	return dropped
}

// take returns the oldest message, nil if none waits.
func (b *backlog) take() *nats.Msg {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil
	}
	return b.next()
}

// next removes the oldest message; b.mu is held and there is one.
func (b *backlog) next() *nats.Msg {
	m := b.waiting[0]
	b.waiting[0] = nil
	b.waiting = b.waiting[1:]
	b.bytes -= len(m.Data)
	return m
}
