package paced

import (
	"context"
	"time"
)

// waiter waits without using a processor.
type waiter interface {
	// until returns when that time has come, or with ctx's error when it ends before.
	until(ctx context.Context, t time.Time) error
	// close frees what the waiter keeps; it still works.
	close()
}

// timers wait by Go's timers. In a process that is idle these are up to a
// millisecond late on Linux, where the poller that they wake counts in milliseconds.
type timers struct{}

func (timers) until(ctx context.Context, t time.Time) error {
	left := time.Until(t)
	if left <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (timers) close() {}
