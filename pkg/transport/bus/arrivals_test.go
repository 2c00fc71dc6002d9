package bus

import (
	"context"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
)

// Each message is handled at a time, and so many wait when that ends.
func TestArrivals(t *testing.T) {
	type handling struct{ from, to, waiting, arrived int }
	for name, all := range map[string][]handling{
		"nobody waits":   {{0, 10, 0, 0}, {20, 30, 0, 20}},
		"one waits":      {{0, 10, 1, 0}, {11, 12, 0, 10}, {20, 30, 0, 20}},
		"several wait":   {{0, 10, 2, 0}, {10, 20, 1, 10}, {20, 30, 0, 10}, {31, 32, 0, 31}},
		"more come":      {{0, 10, 1, 0}, {10, 20, 2, 10}, {20, 30, 1, 20}, {30, 40, 0, 20}},
		"some were lost": {{0, 10, 3, 0}, {10, 20, 0, 10}, {20, 30, 0, 10}},
	} {
		at := func(n int) time.Time { return time.Unix(int64(n), 0) }
		var a arrivals
		for i, h := range all {
			if got := a.next(at(h.from)); !got.Equal(at(h.arrived)) {
				t.Errorf("%s: message %d came at %v, want %v", name, i, got.Unix(), h.arrived)
			}
			a.handled(at(h.to), h.waiting)
		}
	}
}

// A message that comes while another is handled says so, and one that finds
// nobody at work came just now.
func TestArrived(t *testing.T) {
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s, h := names(mode), NewHop(r.conn, mode)
			waited, block := make(chan time.Duration, 3), make(chan struct{})
			running, err := h.Receive(r.ctx(), receiver(s), func(_ context.Context, m *Msg) error {
				waited <- time.Since(m.Arrived)
				<-block
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer running.Stop()
			for range 3 {
				if err := h.Send(r.ctx(), s.Subjects.Hidden(0), hidden(10)); err != nil {
					t.Fatal(err)
				}
			}
			first := <-waited
			testkit.Eventually(t, "two wait", func() bool { n, _, err := running.sub.Pending(); return err == nil && n == 3 })
			close(block)
			if second, third := <-waited, <-waited; first < 0 || second < 0 || third < second {
				t.Errorf("waited %v, %v and %v", first, second, third)
			}
		})
	}
}
