package paced

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

func number(v float64) profiles.Number { return profiles.Number{Value: v, Source: "made up"} }

// shared are two devices whose loads take 20 ms to start and ten pieces of 10 ms on one link.
func shared(t *testing.T) (both [2]*timed) {
	p := card()
	p.ExpertBytes.Value = 10 * pieceBytes
	p.MemoryBytes.Value, p.Shared = 10*p.ExpertBytes.Value, number(10*p.ExpertBytes.Value)
	p.Bandwidth.Value = 2 * p.Shared.Value
	in := NewMachine(p)
	for i := range both {
		both[i] = newTimedIn(t, in, p, nil, device.Settings{})
	}
	return both
}

// Devices have their link in turns, and what rows wait for passes what none wait for.
func TestSharedLink(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wants []wanted
		ends  []int // ms, by device
	}{
		{"one after the other", []wanted{{0, 0, device.Hinted}, {1, 1, device.Hinted}}, []int{120, 220}},
		{"as urgent", []wanted{{0, 0, device.Demanded}, {1, 1, device.Demanded}}, []int{120, 220}},
		{"passes a prefetch", []wanted{{0, 0, device.Hinted}, {57, 1, device.Demanded}}, []int{220, 180}},
		{"promoted as it waits", []wanted{{0, 0, device.Hinted}, {1, 1, device.Hinted}, {53, 1, device.Demanded}}, []int{220, 160}},
		{"a prefetch waits", []wanted{{0, 0, device.Demanded}, {57, 1, device.Hinted}}, []int{120, 220}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				both := shared(t)
				checkEnds(t, tc.wants, tc.ends, func(w wanted) *device.Ticket {
					return both[w.of].Load(t.Context(), forward.ExpertID{}, w.priority)
				})
			})
		})
	}
}

// A load that is given up in the line for the link leaves it to those behind.
func TestSharedLinkGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := shared(t)
		began := time.Now()
		first := both[0].Load(t.Context(), forward.ExpertID{}, device.Demanded)
		time.Sleep(time.Millisecond)
		ctx, end := context.WithCancel(t.Context())
		second := both[1].Load(ctx, forward.ExpertID{}, device.Demanded)
		time.Sleep(50 * time.Millisecond)
		end()
		synctest.Wait()
		if !errors.Is(second.Err(), device.ErrCancelled) {
			t.Error(second.Err())
		}
		third := both[1].Load(t.Context(), forward.ExpertID{Expert: 1}, device.Demanded)
		if err := errors.Join(first.Wait(t.Context()), third.Wait(t.Context())); err != nil {
			t.Error(err)
		}
		if got := time.Since(began).Milliseconds(); got != 220 {
			t.Errorf("the third has its expert after %d ms", got)
		}
	})
}

// Experts come from the store to the machine's memory first, which keeps those that came last for
// all of its devices.
func TestTiers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := card()
		p.Below, p.Store, p.Latency = number(2000), number(20_000), number(10e-3) // two experts; 60 ms each
		in := NewMachine(p)
		devices := [2]*timed{newTimedIn(t, in, p, nil, device.Settings{}), newTimedIn(t, in, p, nil, device.Settings{})}
		for i, load := range []struct{ device, expert, ms int }{
			{0, 0, 180}, {0, 1, 180}, {1, 0, 120}, {0, 2, 180}, {1, 1, 180}, {1, 2, 120}, {1, 3, 180},
		} {
			began := time.Now()
			ticket := devices[load.device].Load(t.Context(), forward.ExpertID{Expert: load.expert}, 0)
			if err := ticket.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began).Milliseconds(); got != int64(load.ms) {
				t.Errorf("load %d takes %d ms, want %d", i, got, load.ms)
			}
		}
	})
}

// What devices take from a memory that is full of what others take goes through it.
func TestTierIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := card()
		p.Below, p.Store, p.Latency = number(1000), number(20_000), number(10e-3)
		in := NewMachine(p)
		a, b := newTimedIn(t, in, p, nil, device.Settings{}), newTimedIn(t, in, p, nil, device.Settings{})
		first := a.Load(t.Context(), forward.ExpertID{}, 0)
		time.Sleep(time.Millisecond)
		second := b.Load(t.Context(), forward.ExpertID{Expert: 1}, 0)
		if err := errors.Join(first.Wait(t.Context()), second.Wait(t.Context())); err != nil {
			t.Error(err)
		}
		a.wantTime(20 + 60 + 60 + 100)
		again := a.Load(t.Context(), forward.ExpertID{Expert: 1}, 0) // it is not held
		if err := again.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		a.wantTime(240 + 180)
	})
}
