package members

import (
	"testing"
	"time"
)

// Work that comes again while, or just after, nobody was heard is its owner's as long as
// that may live; otherwise it is for whom it came to.
func TestLeave(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		name    string
		members string
		own, a  time.Duration // silence
		cut     bool
		deaf    time.Duration // how long ago nobody was heard; 0: never
		place   uint64
		want    time.Duration
	}{
		{"the server was away", "a b", 0, 0, false, time.Second, 1, leaveFor},
		{"long ago", "a b", 0, 0, false, time.Minute, 1, 0},
		{"never", "a b", 0, 0, false, 0, 1, 0},
		{"of nobody", "a b", 0, 0, false, time.Second, 2, 0},
		{"its owner hangs", "a b", 0, fresh, false, time.Second, 1, 0},
		{"its owner has left", "b", 0, 0, false, time.Second, 1, 0},
		{"nobody is heard", "a b", fresh, fresh, false, time.Second, 1, askAgain},
		{"nobody is here", "", 0, 0, false, time.Second, 1, askAgain},
		{"its owner is heard first", "a b", fresh, 0, false, time.Second, 1, leaveFor},
		{"cut off", "a b", 0, fresh, true, 0, 1, askAgain},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHouse(c.members)
			h.silent["b"], h.silent["a"] = c.own, c.a
			s := h.replica()
			tells(t, s, "a", "1")
			if c.deaf > 0 {
				h.cut = true
				s.listen(now.Add(-c.deaf))
			}
			h.cut = c.cut
			s.listen(now)
			if got := s.Leave(c.place, now); got != c.want {
				t.Errorf("left for %v, want %v", got, c.want)
			}
		})
	}
}
