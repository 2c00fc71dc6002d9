package door

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// streams are open at a time, and may take so many MB.
	streams, mostMemory = 1000, 150
	// streamed is how many tokens each has.
	streamed = 48
	// tries is how often a client asks that is told to come again: as often as OpenAI's do.
	tries = 3
)

// A thousand streams are asked for at once by clients that come again when they are told to, and
// take less than 150 MB of the gateway. Of the whole pipeline, pages of keys and values are most
// of what they take.
func TestStreams(t *testing.T) {
	y := start(t)
	if _, err := y.stream(t.Context(), streamed); err != nil { // it gets warm
		t.Fatal(err)
	}
	idle := [2]float64{memory(t, y.gateway), memory(t, y.up)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var open, answered, again, most atomic.Int64
	began := time.Now()
	for range streams {
		all.Go(func() {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			s, err := y.stream(ctx, streamed)
			for try := 1; try < tries && err == nil && s.after > 0; try++ {
				again.Add(1)
				time.Sleep(s.after)
				s, err = y.stream(ctx, streamed)
			}
			if err != nil || s.status != 200 || s.tokens < streamed {
				t.Errorf("a stream has status %d, %d tokens: %v %s", s.status, s.tokens, err, s.refusal)
				return
			}
			answered.Add(1)
		})
	}
	peak, ended := idle, make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			t.Logf("%d streams of %d tokens, %d open at a time, %d told to come again, in %v", answered.Load(), streamed, most.Load(), again.Load(), time.Since(began).Round(time.Second))
			t.Logf("gateway: %.0f MB idle, %.0f MB at most; up: %.0f MB idle, %.0f MB at most", idle[0], peak[0], idle[1], peak[1])
			if more := peak[0] - idle[0]; more > mostMemory {
				t.Errorf("the gateway takes %.0f MB more", more)
			}
			return
		case <-time.After(100 * time.Millisecond):
			peak = [2]float64{max(peak[0], memory(t, y.gateway)), max(peak[1], memory(t, y.up))}
		}
	}
}
