package testkit

import (
	"sync"
	"testing"
	"time"
)

const standingPoll = 10 * time.Millisecond

// Standing begins to note for how long this process does not run, or is late to, and returns what tells
// the longest such time so far. What a replica holds for a time may lapse when its machine stands still
// for that time; a test that wants it to be kept wants that of a process that has run.
func Standing(t testing.TB) (longest func() time.Duration) {
	t.Helper()
	var mu sync.Mutex
	most, last := time.Duration(0), time.Now()
	look := func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		most, last = max(most, now.Sub(last)), now
		return most
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(standingPoll)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				return
			case <-tick.C:
				look()
			}
		}
	}()
	t.Cleanup(func() { close(quit); <-done })
	return look
}
