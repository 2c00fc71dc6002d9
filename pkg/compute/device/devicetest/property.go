package devicetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// want is a ticket and what has happened to it.
type want struct {
	ticket   *device.Ticket
	end      context.CancelFunc
	released bool
}

// held reports whether the expert must be warm.
func (w *want) held() bool {
	select {
	case <-w.ticket.Done():
		return w.ticket.Err() == nil && !w.released
	default:
		return false
	}
}

// machine does anything to a device in any order.
type machine struct {
	d     device.Device
	f     *Faults
	wants []*want
	lets  map[forward.ExpertID]func()
}

var anyExpert = rapid.Custom(func(t *rapid.T) forward.ExpertID { return expert(rapid.IntRange(0, 3).Draw(t, "expert")) })

func (m *machine) load(t *rapid.T) {
	ctx, end := context.WithCancel(context.Background())
	ticket := m.d.Load(ctx, anyExpert.Draw(t, "id"), rapid.Int64Range(0, 2).Draw(t, "priority"))
	m.wants = append(m.wants, &want{ticket: ticket, end: end})
}

func (m *machine) pick(t *rapid.T) *want {
	if len(m.wants) == 0 {
		t.Skip("no ticket")
	}
	return rapid.SampledFrom(m.wants).Draw(t, "ticket")
}

func (m *machine) release(t *rapid.T) {
	w := m.pick(t)
	w.released = true
	w.ticket.Release()
}

func (m *machine) cancel(t *rapid.T) { m.pick(t).end() }

func (m *machine) wait(t *rapid.T) {
	w := m.pick(t)
	if len(m.lets) == 0 {
		<-w.ticket.Done()
	}
}

func (m *machine) evict(t *rapid.T) {
	var inUse *device.HeldError
	if err := m.d.Evict(anyExpert.Draw(t, "id")); err != nil && !errors.As(err, &inUse) {
		t.Fatal(err)
	}
}

func (m *machine) hold(t *rapid.T) {
	id := anyExpert.Draw(t, "id")
	if m.lets[id] == nil {
		m.lets[id] = m.f.Hold(id)
	}
}

func (m *machine) let(*rapid.T) {
	for id, let := range m.lets {
		let()
		delete(m.lets, id)
	}
}

func (m *machine) fail(t *rapid.T) {
	errs := []error{nil, device.ErrOutOfMemory}
	m.f.Fail(anyExpert.Draw(t, "id"), rapid.SampledFrom(errs).Draw(t, "error"))
}

func (m *machine) check(t *rapid.T) {
	mem := m.d.Memory()
	if mem.Used > mem.Budget || mem.Used < 0 {
		t.Fatalf("%+v", mem)
	}
	for _, w := range m.wants {
		held := w.held() // before the state, which may change behind it
		if st := m.d.State(w.ticket.ID); held && (st.Phase != device.Warm || st.Tickets == 0) {
			t.Fatalf("%v is held and %+v", w.ticket.ID, st)
		}
	}
}

// settle lets everything end: each load ends in one of the four ways, and when
// all is given back nothing is held or taken.
func (m *machine) settle(t *rapid.T) {
	m.let(t)
	for _, w := range m.wants {
		<-w.ticket.Done()
		if !isEnd(w.ticket.Err()) {
			t.Fatalf("%v ended with %v", w.ticket.ID, w.ticket.Err())
		}
		w.ticket.Release()
		w.end()
	}
	m.d.Close()
	for e := range 4 {
		if st := m.d.State(expert(e)); st.Tickets != 0 || st.Bytes != 0 {
			t.Fatalf("expert %d is left as %+v", e, st)
		}
	}
	if mem := m.d.Memory(); mem.Used != 0 {
		t.Fatalf("%d bytes are left", mem.Used)
	}
}

func isEnd(err error) bool {
	var refused *device.RefusedError
	var failed *device.FailedError
	return err == nil || errors.Is(err, device.ErrCancelled) || errors.As(err, &refused) || errors.As(err, &failed)
}

func testAnyOrder(t *testing.T, create New) {
	rapid.Check(t, func(rt *rapid.T) {
		d, f := limited(t, create, device.Settings{Loads: rapid.IntRange(1, 3).Draw(rt, "loads")}, rapid.IntRange(0, 4).Draw(rt, "room"))
		m := &machine{d: d, f: f, lets: map[forward.ExpertID]func(){}}
		defer d.Close()
		defer m.let(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"load": m.load, "release": m.release, "cancel": m.cancel, "wait": m.wait, "evict": m.evict,
			"hold": m.hold, "let": m.let, "fail": m.fail, "": m.check,
		})
		m.settle(rt)
	})
}

// Who holds an expert can compute with it, whatever others do at the same
// time, and the budget is never exceeded.
func testAtOnce(t *testing.T, create New) {
	d, _ := limited(t, create, device.Settings{Loads: 3}, 2)
	var users sync.WaitGroup
	for seed := range uint64(6) {
		users.Go(func() { useAtRandom(t, d, rand.New(rand.NewPCG(seed, 1))) })
	}
	users.Wait()
	d.Close()
	wantUsed(t, d, 0)
}

func useAtRandom(t *testing.T, d device.Device, g *rand.Rand) {
	for range 100 {
		e := g.IntN(4)
		_ = d.Evict(expert(g.IntN(4))) // may be in use
		ticket := d.Load(t.Context(), expert(e), int64(g.IntN(2)))
		if g.IntN(4) > 0 {
			<-ticket.Done()
		}
		if ticket.Err() == nil && d.State(expert(e)).Phase == device.Warm {
			if _, err := compute(d, work(uint32(e))); err != nil {
				t.Error(err)
			}
		}
		_, _ = compute(d, work(uint32(g.IntN(4)))) // may be cold
		ticket.Release()
		if mem := d.Memory(); mem.Used > mem.Budget {
			t.Errorf("%+v", mem)
		}
	}
}
