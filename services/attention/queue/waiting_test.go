package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// settled notes what becomes of deliveries.
type settled struct {
	mu   sync.Mutex
	told []string
}

type toldDelivery struct {
	name string
	to   *settled
}

func (d toldDelivery) say(what string) error {
	d.to.mu.Lock()
	defer d.to.mu.Unlock()
	d.to.told = append(d.to.told, d.name+" "+what)
	return nil
}

func (d toldDelivery) Ack() error              { return d.say("ack") }
func (d toldDelivery) Nak(time.Duration) error { return d.say("nak") }
func (d toldDelivery) End(err error) error     { return d.say(fmt.Sprint("end ", err)) }
func (d toldDelivery) InProgress() error       { return d.say("renewed") }
func (d toldDelivery) AckSubject() string      { return d.name }

// arrivals makes sequences of tenants that were stored one second after the other.
func arrivals(to *settled, names ...string) (all []*arrival) {
	k := renewal.New(slog.New(slog.DiscardHandler), &renewal.Pulse{}, nil, time.Hour)
	for i, name := range names {
		all = append(all, &arrival{
			hold: k.Keep(toldDelivery{name, to}), bytes: 10, delivered: 1, stored: time.Unix(int64(i), 0),
			msg: &pb.Sequence{RequestId: name, PromptIds: make([]uint32, 10), MaxTokens: 10, Accept: &pb.Accept{Tenant: name[:1]}},
		})
	}
	return all
}

func (w *waiting) joinAll(all []*arrival) {
	w.expect(len(all))
	for _, a := range all {
		w.join(a)
	}
}

// One tenant's many do not hold up another's few.
func TestWaitingIsFair(t *testing.T) {
	w := newWaiting()
	w.joinAll(arrivals(nil, "a1", "a2", "a3", "a4", "b1", "b2"))
	var order []string
	for a := w.take(); a != nil; a = w.take() {
		order = append(order, a.msg.RequestId)
	}
	if fmt.Sprint(order) != "[a1 b1 a2 b2 a3 a4]" || w.size() != 0 || w.bytes != 0 || len(w.byID) != 0 {
		t.Errorf("%v; %d wait, %d bytes", order, w.size(), w.bytes)
	}
}

func TestWaitingLeaves(t *testing.T) {
	w, told := newWaiting(), &settled{}
	w.joinAll(arrivals(told, "a1", "a2", "a3", "b1"))
	if a := w.leave("a2"); a == nil || a.msg.RequestId != "a2" || w.leave("a2") != nil {
		t.Error("a2 does not leave once")
	}
	again := arrivals(told, "a1")[0] // its renewal was late
	w.joinAll([]*arrival{again})
	if w.size() != 3 || w.room() != maxWaiting-3 {
		t.Errorf("%d wait, with room for %d", w.size(), w.room())
	}
	all := func(*arrival) bool { return true }
	if none := w.surplus(9, func(*arrival) bool { return false }); len(none) != 0 {
		t.Errorf("%d are given to who cannot hold them", len(none))
	}
	if last := w.surplus(1, all); len(last) != 1 || last[0].msg.RequestId != "a3" {
		t.Errorf("%v is given back", last)
	}
	if first := w.take(); first != again {
		t.Errorf("%v is first", first.msg.RequestId)
	}
	w.expect(2)
	w.pass()
	if w.size() != 2 || len(w.surplus(9, all)) != 1 {
		t.Errorf("%d wait", w.size())
	}
}

// Large messages fill the room before many do.
func TestWaitingIsBounded(t *testing.T) {
	w := newWaiting()
	a := arrivals(nil, "a1")[0]
	a.bytes = maxWaitingBytes
	w.joinAll([]*arrival{a})
	if w.room() != 0 {
		t.Errorf("room for %d", w.room())
	}
	w.take()
	w.expect(maxWaiting)
	if w.room() != 0 {
		t.Errorf("room for %d", w.room())
	}
}

// A turn waits for somebody to come.
func TestTurnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWaiting()
		var got *arrival
		go func() { got = w.next(ctx) }()
		synctest.Wait()
		if got != nil {
			t.Fatal("nobody came")
		}
		w.joinAll(arrivals(nil, "a1"))
		synctest.Wait()
		if got == nil || got.msg.RequestId != "a1" {
			t.Fatalf("got %v", got)
		}
		cancel()
		if w.next(ctx) != nil {
			t.Error("it goes on after the end")
		}
	})
}
