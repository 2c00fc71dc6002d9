package tokenlog

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

const (
	// smallLog is what a log may take without waiting for a place.
	smallLog = 1 << 20
	// How many large logs are read at once, and followed by readers that do not
	// have yet what was there when they came: a server closes the connection of
	// a client for which too much waits.
	readsAtOnce   = 4
	followsAtOnce = 2
)

// places lets a bounded number of readers of large logs be inside.
type places struct{ free *semaphore.Weighted }

func newPlaces(n int64) places { return places{semaphore.NewWeighted(n)} }

// enter waits for a place if the log that begins with first is large; leave
// gives it back, the first time that it is called.
func (p places) enter(ctx context.Context, first bus.Stored) (leave func(), err error) {
	if isSmall(first) {
		return func() {}, nil
	}
	if err := p.free.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("waiting for a place to read a large log: %w", err)
	}
	return sync.OnceFunc(func() { p.free.Release(1) }), nil
}

// isSmall reports whether a log's acceptance, or its packed form, promises that it
// is small.
func isSmall(first bus.Stored) bool {
	e, err := decode(first)
	if err != nil {
		return false
	}
	bytes := e.Record.GetAccept().GetLogBytes()
	return e.Record.GetPacked() != nil || bytes > 0 && bytes <= smallLog
}
