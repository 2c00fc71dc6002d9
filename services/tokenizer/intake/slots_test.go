package intake

import (
	"context"
	"testing"
)

// Who stops takes no place that was not given.
func TestRoomAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // it may see the end or the place first
		r := newSlots(1)
		if n := r.take(ended); n+len(r) != 1 {
			t.Fatalf("%d taken and %d left of 1 place", n, len(r))
		}
	}
}
