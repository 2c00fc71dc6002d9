package renewal

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// parcel is a delivery that counts its renewals.
type parcel struct {
	Delivery
	name     string
	renewals int
}

func (p *parcel) InProgress() error  { p.renewals++; return nil }
func (p *parcel) AckSubject() string { return p.name }
func (p *parcel) Ack() error         { return nil }

// toldBy is what siblings hear that a keeper renews.
func toldBy(t *testing.T, k *Keeper) (deliveries []string) {
	t.Helper()
	members.NewSiblings(members.SiblingSettings{
		Holdings: k.Told(), Listens: func() bool { return true }, MaxBytes: func() int64 { return 1 << 20 },
		Send: func(has *pb.Holdings) error { deliveries = has.Deliveries; return nil },
	}).Tell()
	return deliveries
}

// Work is renewed, and said to be here, while its worker gets on or waits for others, and while
// the engine turns: a worker that hangs loses what it has, an engine that hangs all.
func TestHang(t *testing.T) {
	engine, waits := &Pulse{}, false
	worker, other := &Worker{Waits: func() bool { return waits }}, &Worker{Waits: func() bool { return false }}
	k := New(slog.New(slog.DiscardHandler), engine, []*Worker{worker, other}, time.Hour)
	parcels := []*parcel{{name: "r"}, {name: "other"}, {name: "waits"}}
	holds := make([]*Hold, len(parcels))
	for i, p := range parcels {
		holds[i] = k.Keep(p)
	}
	holds[0].With(worker)
	holds[1].With(other)
	worker.Begin()
	engine.Begin()
	renewed := func() (n [3]int) {
		told := toldBy(t, k)
		for i, p := range parcels {
			n[i], p.renewals = p.renewals, 0
			if slices.Contains(told, p.name) != (n[i] > 0) {
				t.Errorf("%s was renewed %d times, and siblings hear of %v", p.name, n[i], told)
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
		{"others are slow", func() { waits = true }, [3]int{1, 1, 1}},
		{"still they are", func() { engine.Progress.Tick() }, [3]int{1, 1, 1}},
		{"a piece is done", func() { waits = false; worker.Progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is slow", func() { worker.Progress.Tick() }, [3]int{1, 1, 1}},
		{"the engine is stuck", func() { worker.Progress.Tick() }, [3]int{0, 0, 0}},
		{"it was not", func() { worker.Progress.Tick(); engine.Progress.Tick() }, [3]int{1, 1, 1}},
		{"the worker has no work", func() { worker.Rest(); engine.Progress.Tick() }, [3]int{1, 1, 1}},
		{"it is settled", func() { engine.Progress.Tick(); _ = holds[0].Ack() }, [3]int{0, 1, 1}},
	} {
		tc.before()
		k.Renew()
		if got := renewed(); got != tc.want {
			t.Errorf("%s: renewed %v, want %v", tc.name, got, tc.want)
		}
	}
}

// What was not renewed in time has lapsed, and stays so.
func TestLapse(t *testing.T) {
	h := New(slog.New(slog.DiscardHandler), &Pulse{}, nil, time.Second).Keep(&parcel{name: "a1"})
	begun := h.renewed
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{900 * time.Millisecond, false}, {1800 * time.Millisecond, false}, {3 * time.Second, true}, {3100 * time.Millisecond, true}} {
		if h.note(begun.Add(tc.after)); h.Lapsed() != tc.want {
			t.Errorf("after %v it has lapsed: %v", tc.after, !tc.want)
		}
	}
}
