package paced

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

var waiters = []struct {
	name string
	make func() waiter
}{
	{"timers", func() waiter { return timers{} }}, {"system", newWaiter},
}

// Nobody is woken early, and waits run side by side, also after the end.
func TestNeverEarly(t *testing.T) {
	for _, tc := range waiters {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.make()
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for n := range 20 {
						due := time.Now().Add(time.Duration(n*i) * 10 * time.Microsecond)
						if err := w.until(t.Context(), due); err != nil || time.Now().Before(due) {
							t.Errorf("woken %v early, %v", time.Until(due), err)
						}
					}
				})
			}
			all.Wait()
			w.close()
			if err := w.until(t.Context(), time.Now().Add(time.Millisecond)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The end of a context ends a wait, before it and in it, and harms no other.
func TestWaitEnds(t *testing.T) {
	for _, tc := range waiters {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.make()
			defer w.close()
			for _, after := range []time.Duration{0, time.Millisecond} {
				ctx, cancel := context.WithTimeout(t.Context(), after)
				if err := w.until(ctx, time.Now().Add(time.Hour)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("after %v: %v", after, err)
				}
				cancel()
			}
			if err := w.until(t.Context(), time.Now().Add(time.Millisecond)); err != nil {
				t.Error(err)
			}
		})
	}
}

// BenchmarkLateness is how long after its time a wait of 500 µs ends.
func BenchmarkLateness(b *testing.B) {
	for _, tc := range waiters {
		b.Run(tc.name, func(b *testing.B) {
			w := tc.make()
			defer w.close()
			var late time.Duration
			for b.Loop() {
				due := time.Now().Add(500 * time.Microsecond)
				if err := w.until(b.Context(), due); err != nil {
					b.Fatal(err)
				}
				late += time.Since(due)
			}
			b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs-late")
		})
	}
}
