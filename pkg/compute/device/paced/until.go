package paced

import (
	"context"
	"time"
)

// Alarms wait as paced devices do: tens of microseconds late, without using a processor. What has
// the times of a platform beside them, such as a store of rows, waits by these.
type Alarms struct{ waiter }

// NewAlarms returns some, which Close frees.
func NewAlarms() *Alarms { return &Alarms{newWaiter()} }

// Until returns when that time has come, or with ctx's error when it ends before.
func (a *Alarms) Until(ctx context.Context, t time.Time) error { return a.until(ctx, t) }

// Close frees what they keep.
func (a *Alarms) Close() { a.close() }
