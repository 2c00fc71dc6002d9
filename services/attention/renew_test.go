package attention

import (
	"testing"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Work is renewed while its lane gets on or waits for others, and while the
// engine turns: a lane that hangs loses what it has, an engine that hangs all.
func TestHang(t *testing.T) {
	b := newBench(t, 2, 8)
	s, other, waiting := b.request("r", 2, 10), b.request("other", 2, 10), b.request("waits", 40*32, 1000)
	b.add(s)
	b.start()
	b.add(other)
	b.start()
	b.add(waiting) // for more pages than there are
	lane := s.delivery.lane.Load()
	if lane == nil || lane == other.delivery.lane.Load() {
		t.Fatal("each is to have a lane")
	}
	lane.pulse.begin()
	b.pulse.begin()
	renewed := func() (n [3]int) {
		for i, q := range []*sequence{s, other, waiting} {
			n[i], delivered(q).renewals = delivered(q).renewals, 0
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		before func()
		want   [3]int
	}{
		{"just begun", func() {}, [3]int{1, 1, 1}},
		{"stuck lane", func() {}, [3]int{0, 1, 1}},
		{"others are slow", func() { lane.remote.waitingFlag.Store(true) }, [3]int{1, 1, 1}},
		{"still they are", func() { b.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"a piece is done", func() { lane.remote.waitingFlag.Store(false); lane.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is slow", func() { lane.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is stuck", func() { lane.pulse.progress.Tick() }, [3]int{0, 0, 0}},
		{"it was not", func() { lane.pulse.progress.Tick(); b.append(s, &pb.Record{}) }, [3]int{1, 1, 1}},
	} {
		tc.before()
		b.keeper.renew()
		if got := renewed(); got != tc.want {
			t.Errorf("%s: renewed %v, want %v", tc.name, got, tc.want)
		}
	}
}
