package attention

import (
	"slices"
	"testing"

	"github.com/switchyard/switchyard/pkg/control/siblings"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// toldBy is what siblings hear that a keeper renews.
func toldBy(t *testing.T, k *keeper) (deliveries []string) {
	t.Helper()
	siblings.New(siblings.Settings{
		Holdings: k.told, Listens: func() bool { return true }, MaxBytes: func() int64 { return 1 << 20 },
		Send: func(has *pb.Holdings) error { deliveries = has.Deliveries; return nil },
	}).Tell()
	return deliveries
}

// Work is renewed, and said to be here, while its worker gets on or waits for others, and while
// the engine turns: a worker that hangs loses what it has, an engine that hangs all.
func TestHang(t *testing.T) {
	b := newBench(t, 2, 8)
	s, other, waiting := b.request("r", 2, 10), b.request("other", 2, 10), b.request("waits", 70*32, 1)
	b.add(s)
	b.start()
	b.add(other)
	b.start()
	b.add(waiting) // for more pages than there are
	worker := s.delivery.worker.Load()
	if worker == nil || worker == other.delivery.worker.Load() {
		t.Fatal("each is to have a worker")
	}
	worker.pulse.begin()
	b.pulse.begin()
	renewed := func() (n [3]int) {
		told := toldBy(t, b.keeper)
		for i, q := range []*sequence{s, other, waiting} {
			n[i], delivered(q).renewals = delivered(q).renewals, 0
			if slices.Contains(told, q.delivery.AckSubject()) != (n[i] > 0) {
				t.Errorf("%s was renewed %d times, and siblings hear of %v", q.seq.RequestId, n[i], told)
			}
		}
		return n
	}
	for _, tc := range []struct {
		name   string
		before func()
		want   [3]int
	}{
		{"just begun", func() {}, [3]int{1, 1, 1}},
		{"stuck worker", func() {}, [3]int{0, 1, 1}},
		{"others are slow", func() { worker.remote.waitingFlag.Store(true) }, [3]int{1, 1, 1}},
		{"still they are", func() { b.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"a piece is done", func() { worker.remote.waitingFlag.Store(false); worker.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is slow", func() { worker.pulse.progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is stuck", func() { worker.pulse.progress.Tick() }, [3]int{0, 0, 0}},
		{"it was not", func() { worker.pulse.progress.Tick(); b.append(s, &pb.Record{}) }, [3]int{1, 1, 1}},
	} {
		tc.before()
		b.keeper.renew()
		if got := renewed(); got != tc.want {
			t.Errorf("%s: renewed %v, want %v", tc.name, got, tc.want)
		}
	}
}
