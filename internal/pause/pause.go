// Package pause waits between attempts at something that may fail again, wakes who waits, and logs
// a failure that repeats once.
package pause

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// jitter spreads pauses by a fifth either way, so that replicas that failed
// together do not try again together.
const jitter = 0.2

// Growing is a series of pauses, each about twice as long as the one before. It
// is for one goroutine.
type Growing struct{ b *backoff.ExponentialBackOff }

// Between returns pauses that begin with about first and grow to about last.
func Between(first, last time.Duration) *Growing {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier, b.RandomizationFactor = first, last, 2, jitter
	b.Reset()
	return &Growing{b}
}

// Next returns how long to wait now.
func (g *Growing) Next() time.Duration { return g.b.NextBackOff() }

// Reset begins anew: what failed has worked meanwhile.
func (g *Growing) Reset() { g.b.Reset() }

// Wait waits for the next pause. Its error is ctx's cause.
func (g *Growing) Wait(ctx context.Context) error { return For(ctx, g.Next()) }

// For waits for d. Its error is ctx's cause.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
