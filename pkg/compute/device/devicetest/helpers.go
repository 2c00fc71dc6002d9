package devicetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

func expert(e int) forward.ExpertID { return forward.ExpertID{Expert: e} }

// size returns the bytes of an expert of the device that is tested.
func size(t testing.TB, d device.Device) int64 {
	t.Helper()
	n, err := d.Size(expert(0))
	if err != nil || n <= 0 {
		t.Fatalf("size of an expert: %d, %v", n, err)
	}
	return n
}

// limited makes a device with room for so many experts and one byte less than
// another one.
func limited(t testing.TB, create New, s device.Settings, experts int) (device.Device, *Faults) {
	t.Helper()
	d, _ := create(t, device.Settings{})
	s.Budget = int64(experts+1)*size(t, d) - 1
	return create(t, s)
}

func warm(t testing.TB, d device.Device, experts ...int) []*device.Ticket {
	t.Helper()
	out := make([]*device.Ticket, len(experts))
	for i, e := range experts {
		out[i] = d.Load(t.Context(), expert(e), 0)
		wantEnd(t, out[i], nil)
	}
	return out
}

// patience is far beyond what a load takes, also on a machine that is busy.
const patience = 2 * time.Minute

// wantEnd waits for a load's end, which must be err.
func wantEnd(t testing.TB, ticket *device.Ticket, err error) {
	t.Helper()
	select {
	case <-ticket.Done():
	case <-time.After(patience):
		t.Fatalf("the load of %v did not end", ticket.ID)
	}
	if !errors.Is(ticket.Err(), err) {
		t.Fatalf("the load of %v ended with %v, want %v", ticket.ID, ticket.Err(), err)
	}
}

// wantRefusal is wantEnd with a refusal that says both numbers. Refusals do not wait.
func wantRefusal(t testing.TB, d device.Device, ticket *device.Ticket, room int64) {
	t.Helper()
	var refused *device.RefusedError
	if !errors.As(ticket.Err(), &refused) {
		t.Fatalf("the load of %v ended with %v, want a refusal", ticket.ID, ticket.Err())
	}
	want := device.RefusedError{ID: ticket.ID, Need: size(t, d), Room: room, Budget: d.Memory().Budget}
	if *refused != want {
		t.Fatalf("refused with %+v, want %+v", *refused, want)
	}
	wantPhase(t, d, device.Cold, ticket.ID.Expert)
}

func wantPhase(t testing.TB, d device.Device, want device.Phase, experts ...int) {
	t.Helper()
	for _, e := range experts {
		if got := d.State(expert(e)); got.Phase != want {
			t.Fatalf("expert %d is %v (%+v), want %v", e, got.Phase, got, want)
		}
	}
}

// wantUsed wants the bytes of so many experts to be in use.
func wantUsed(t testing.TB, d device.Device, experts int) {
	t.Helper()
	if got, want := d.Memory().Used, int64(experts)*size(t, d); got != want {
		t.Fatalf("%d bytes are used, want %d", got, want)
	}
}

func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// wantBegun waits for as many loads, which must have begun in this order.
func wantBegun(t testing.TB, f *Faults, experts ...int) {
	t.Helper()
	want := make([]forward.ExpertID, len(experts))
	for i, e := range experts {
		want[i] = expert(e)
	}
	await(t, "the begin of a load", func() bool { return len(f.Began()) >= len(want) })
	if got := f.Began(); !slices.Equal(got, want) {
		t.Fatalf("loads began in the order %v, want %v", got, want)
	}
}
