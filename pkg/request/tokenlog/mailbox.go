package tokenlog

import (
	"sync"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

const (
	// maxWaiting bounds the bytes that wait for one reader, if that is more than one
	// message: a reader that is busy must not fill the memory.
	maxWaiting = 4 << 20
	// besideData is about what a message takes in memory beside its data.
	besideData = 512
)

// mailbox holds what has come for a reader that is busy.
type mailbox struct {
	filled chan struct{} // has a signal when something waits

	mu      sync.Mutex
	waiting []bus.Stored
	size    int64
}

func newMailbox() *mailbox {
	return &mailbox{filled: make(chan struct{}, 1)}
}

// put adds a message; false: there is no room for it.
func (b *mailbox) put(m bus.Stored) bool {
	size := int64(len(m.Data)) + besideData
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 && b.size+size > maxWaiting {
		return false
	}
	b.waiting, b.size = append(b.waiting, m), b.size+size
	pause.Wake(b.filled)
	return true
}

// swap takes out all that waits; taken is what was taken out before, to be used again.
func (b *mailbox) swap(taken []bus.Stored) (all []bus.Stored) {
	clear(taken) // or the array keeps their data
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.waiting, b.size = b.waiting, taken[:0], 0
	return all
}
