package tokenlog

import (
	"context"
	"sync"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

const (
	// smallLog is what a log may take without waiting for a place.
	smallLog = 1 << 20
	// How many large logs are read at once, and followed by who does not have
	// yet what was there when he came: a server closes the connection of a
	// client for which too much waits.
	readsAtOnce   = 4
	followsAtOnce = 2
)

// semaphore lets a bounded number of readers of large logs be inside.
type semaphore chan struct{}

func newSemaphore(n int) semaphore { return make(semaphore, n) }

// enter waits for a place if the log that begins with first is large; leave
// gives it back, the first time that it is called.
func (t semaphore) enter(ctx context.Context, first bus.Stored) (leave func(), err error) {
	if isSmall(first) {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return sync.OnceFunc(func() { <-t }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// isSmall says whether a log's acceptance, or its packed form, promises that it
// is small.
func isSmall(first bus.Stored) bool {
	e, err := decode(first)
	if err != nil {
		return false
	}
	bytes := e.Record.GetAccept().GetLogBytes()
	return e.Record.GetPacked() != nil || bytes > 0 && bytes <= smallLog
}
