package devicetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

func testLoad(t *testing.T, create New) {
	d, f := create(t, device.Settings{})
	defer d.Close()
	if st := d.State(expert(1)); st != (device.State{}) {
		t.Fatalf("an expert of a new device is %+v", st)
	}
	let := f.Hold(expert(1))
	ticket := d.Load(t.Context(), expert(1), 0)
	want := device.State{Phase: device.Loading, Bytes: size(t, d), Tickets: 1}
	if st := d.State(expert(1)); st != want || ticket.Err() != nil || ticket.Bytes != want.Bytes {
		t.Fatalf("%+v, want %+v", st, want)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := ticket.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("waiting with an ended context: %v", err)
	}
	let()
	wantEnd(t, ticket, nil)
	want.Phase = device.Warm
	if st := d.State(expert(1)); st != want {
		t.Fatalf("%+v, want %+v", st, want)
	}
	wantUsed(t, d, 1)
}

// The expert wanted last begins first; the same expert wanted again moves up,
// and never down.
func testPriority(t *testing.T, create New) {
	d, f := create(t, device.Settings{Loads: 1})
	defer d.Close()
	let := f.Hold(expert(0))
	defer let()
	var last *device.Ticket
	want := func(e int, priority int64) {
		ticket := d.Load(t.Context(), expert(e), priority)
		if e == 3 {
			last = ticket
		}
	}
	want(0, 0)
	wantBegun(t, f, 0)
	want(3, 1)
	want(1, 5)
	want(2, 5)
	want(2, 4)
	let()
	wantEnd(t, last, nil)
	wantBegun(t, f, 0, 2, 1, 3)
}

func testMovesUp(t *testing.T, create New) {
	d, f := create(t, device.Settings{Loads: 1})
	defer d.Close()
	let := f.Hold(expert(0))
	defer let()
	d.Load(t.Context(), expert(0), 0)
	wantBegun(t, f, 0)
	d.Load(t.Context(), expert(1), 1)
	d.Load(t.Context(), expert(2), 1)
	last := d.Load(t.Context(), expert(3), 1)
	d.Load(t.Context(), expert(1), 1)
	d.Load(t.Context(), expert(2), 2)
	let()
	wantEnd(t, last, nil)
	wantBegun(t, f, 0, 2, 1, 3)
}

func testAtATime(t *testing.T, create New) {
	for _, loads := range []int{1, 2, 3} {
		d, f := create(t, device.Settings{Loads: loads})
		var tickets []*device.Ticket
		var lets []func()
		for e := range 4 {
			lets = append(lets, f.Hold(expert(e)))
			tickets = append(tickets, d.Load(t.Context(), expert(e), 0))
		}
		await(t, "the loads", func() bool { return len(f.Began()) == loads })
		for _, let := range lets {
			let()
		}
		for _, ticket := range tickets {
			wantEnd(t, ticket, nil)
		}
		if f.Most() != loads {
			t.Errorf("%d loads ran at a time, want %d", f.Most(), loads)
		}
		d.Close()
	}
}

// canceller are the ways to cancel a load.
var cancellers = []struct {
	name   string
	cancel func(ticket *device.Ticket, endContext func())
}{
	{"by ticket", func(ticket *device.Ticket, _ func()) { ticket.Release() }},
	{"by context", func(_ *device.Ticket, endContext func()) { endContext() }},
}

func testCancelWaiting(t *testing.T, create New) {
	for _, by := range cancellers {
		t.Run(by.name, func(t *testing.T) {
			d, f := limited(t, create, device.Settings{Loads: 1}, 2)
			defer d.Close()
			defer f.Hold(expert(0))()
			d.Load(t.Context(), expert(0), 0)
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ticket := d.Load(ctx, expert(1), 0)
			wantUsed(t, d, 2)
			by.cancel(ticket, end)
			wantEnd(t, ticket, device.ErrCancelled)
			wantUsed(t, d, 1)
			wantPhase(t, d, device.Cold, 1)
			d.Load(t.Context(), expert(2), 0) // its room is free
			wantPhase(t, d, device.Loading, 2)
			wantBegun(t, f, 0)
		})
	}
}

// The ticket ends at once, the bytes are free when the loader has returned.
func testCancelRunning(t *testing.T, create New) {
	for _, by := range cancellers {
		t.Run(by.name, func(t *testing.T) {
			d, f := create(t, device.Settings{})
			defer d.Close()
			defer f.Hold(expert(0))()
			ctx, end := context.WithCancel(t.Context())
			defer end()
			ticket := d.Load(ctx, expert(0), 0)
			wantBegun(t, f, 0)
			by.cancel(ticket, end)
			wantEnd(t, ticket, device.ErrCancelled)
			await(t, "the end of the load", func() bool { return d.State(expert(0)) == device.State{} })
			wantUsed(t, d, 0)
		})
	}
}

// A loader that does not see that it is cancelled may leave a warm expert, which
// nobody holds.
func testCancelTooLate(t *testing.T, create New) {
	d, f := create(t, device.Settings{})
	defer d.Close()
	let := f.Hold(expert(0))
	defer let()
	f.Ignore(expert(0))
	ticket := d.Load(t.Context(), expert(0), 0)
	wantBegun(t, f, 0)
	ticket.Release()
	wantEnd(t, ticket, device.ErrCancelled)
	wantUsed(t, d, 1)
	let()
	await(t, "the end of the load", func() bool { return d.State(expert(0)).Phase != device.Loading })
	if err := d.Evict(expert(0)); err != nil {
		t.Error(err)
	}
	wantUsed(t, d, 0)
}

// The context means nothing to a warm expert, and everything before it.
func testContext(t *testing.T, create New) {
	d, _ := create(t, device.Settings{})
	defer d.Close()
	ctx, end := context.WithCancel(t.Context())
	ticket := d.Load(ctx, expert(0), 0)
	wantEnd(t, ticket, nil)
	end()
	wantEnd(t, d.Load(ctx, expert(1), 0), device.ErrCancelled)
	if st := d.State(expert(0)); st.Tickets != 1 {
		t.Errorf("%+v", st)
	}
	wantPhase(t, d, device.Cold, 1)
}

// An expert that is wanted again while its cancelled load still ends is loaded.
func testWantAgain(t *testing.T, create New) {
	d, f := limited(t, create, device.Settings{}, 1)
	defer d.Close()
	let := f.Hold(expert(0))
	defer let()
	first := d.Load(t.Context(), expert(0), 0)
	wantBegun(t, f, 0)
	first.Release()
	again := d.Load(t.Context(), expert(0), 0)
	let()
	wantEnd(t, again, nil)
	wantUsed(t, d, 1)
	again.Release()
	if err := d.Evict(expert(0)); err != nil {
		t.Error(err)
	}
}

func testShare(t *testing.T, create New) {
	d, f := create(t, device.Settings{})
	defer d.Close()
	let := f.Hold(expert(0))
	defer let()
	one, other := d.Load(t.Context(), expert(0), 0), d.Load(t.Context(), expert(0), 3)
	one.Release()
	wantEnd(t, one, device.ErrCancelled)
	wantPhase(t, d, device.Loading, 0)
	let()
	wantEnd(t, other, nil)
	wantBegun(t, f, 0)
	if st := d.State(expert(0)); st.Tickets != 1 {
		t.Errorf("%+v", st)
	}
}

func testFail(t *testing.T, create New) {
	d, f := limited(t, create, device.Settings{}, 1)
	defer d.Close()
	f.Fail(expert(0), device.ErrOutOfMemory)
	wantEnd(t, d.Load(t.Context(), expert(0), 0), device.ErrOutOfMemory)
	st := d.State(expert(0))
	var failed *device.FailedError
	if st.Phase != device.Failed || !errors.As(st.Err, &failed) || failed.ID != expert(0) || st.Bytes+int64(st.Tickets) != 0 {
		t.Fatalf("%+v", st)
	}
	wantUsed(t, d, 0)
	f.Fail(expert(0), nil)
	warm(t, d, 0)
	if st := d.State(expert(0)); st.Phase != device.Warm || st.Err != nil {
		t.Fatalf("%+v", st)
	}
}

func testUnknown(t *testing.T, create New) {
	d, f := create(t, device.Settings{})
	defer d.Close()
	for _, id := range []forward.ExpertID{{Layer: 0, Expert: -1}, {Layer: -1}, {Layer: 0, Expert: 1 << 20}, {Layer: 1 << 20}} {
		ticket := d.Load(t.Context(), id, 0)
		wantEnd(t, ticket, device.ErrUnknown)
		ticket.Release()
		if _, err := d.Size(id); !errors.Is(err, device.ErrUnknown) {
			t.Errorf("size of %v: %v", id, err)
		}
		if d.Evict(id) != nil || d.State(id) != (device.State{}) {
			t.Errorf("%v is %+v", id, d.State(id))
		}
	}
	if len(f.Began()) > 0 {
		t.Errorf("%v began", f.Began())
	}
}

type ended struct {
	mu   sync.Mutex
	list []device.Ended
}

func (e *ended) add(one device.Ended) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, one)
}

func (e *ended) all() []device.Ended {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// Each load is told once, by how it ended; tickets of a warm expert are no loads.
func testEnded(t *testing.T, create New) {
	var got ended
	d, f := limited(t, create, device.Settings{Ended: got.add}, 2)
	defer d.Close()
	f.Fail(expert(1), device.ErrOutOfMemory)
	defer f.Hold(expert(2))()
	warm(t, d, 0, 0)
	wantEnd(t, d.Load(t.Context(), expert(1), 0), device.ErrOutOfMemory)
	coming := d.Load(t.Context(), expert(2), 0)
	<-d.Load(t.Context(), expert(3), 0).Done()
	coming.Release()
	await(t, "four ends", func() bool { return len(got.all()) == 4 })
	var refused *device.RefusedError
	for _, e := range got.all() {
		asWanted := []bool{e.Err == nil, errors.Is(e.Err, device.ErrOutOfMemory), errors.Is(e.Err, device.ErrCancelled), errors.As(e.Err, &refused)}
		if !asWanted[e.ID.Expert] || e.Bytes != size(t, d) || e.Waited < 0 || e.Took < 0 {
			t.Errorf("%+v", e)
		}
	}
}

// Close ends all loads and keeps what is held.
func testClose(t *testing.T, create New) {
	d, f := create(t, device.Settings{Loads: 1})
	held := warm(t, d, 0, 1)
	held[0].Release()
	defer f.Hold(expert(2))()
	running, queued := d.Load(t.Context(), expert(2), 0), d.Load(t.Context(), expert(3), 0)
	wantBegun(t, f, 0, 1, 2)
	d.Close()
	d.Close()
	for _, ticket := range []*device.Ticket{running, queued, d.Load(t.Context(), expert(0), 0)} {
		wantEnd(t, ticket, device.ErrCancelled)
		ticket.Release()
	}
	wantUsed(t, d, 1)
	held[1].Release()
	wantUsed(t, d, 0)
}
