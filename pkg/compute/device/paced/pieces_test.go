package paced

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
)

// large is card with experts of ten pieces, of 10 ms each: a load takes 20 ms to start and
// 100 ms to transfer.
func large() (s *device.Settings, open func(t *testing.T) *timed) {
	s = &device.Settings{}
	return s, func(t *testing.T) *timed {
		p := card()
		p.ExpertBytes.Value = 10 * pieceBytes
		p.MemoryBytes.Value, p.Bandwidth.Value = 10*p.ExpertBytes.Value, 10*p.ExpertBytes.Value
		return newTimedOn(t, p, nil, *s)
	}
}

// wanted is a load that begins at a time, in ms, of an expert or on a device.
type wanted struct {
	at, of   int
	priority int64
}

// checkEnds begins loads when they are wanted, and checks when each last one is there, in ms.
func checkEnds(t *testing.T, wants []wanted, ends []int, load func(wanted) *device.Ticket) {
	t.Helper()
	began, got := time.Now(), make([]atomic.Int64, len(ends))
	for _, w := range wants {
		time.Sleep(time.Until(began.Add(time.Duration(w.at) * time.Millisecond)))
		ticket := load(w)
		go func() {
			if ticket.Wait(t.Context()) == nil {
				got[w.of].Store(time.Since(began).Milliseconds())
			}
		}()
	}
	time.Sleep(time.Second)
	for i, want := range ends {
		if ms := got[i].Load(); ms != int64(want) {
			t.Errorf("%d is loaded after %d ms, want %d", i, ms, want)
		}
	}
}

// A demanded load passes a prefetch at the end of its piece, and a prefetch that rows
// come for is passed no more.
func TestPieces(t *testing.T) {
	for _, tc := range []struct {
		name  string
		loads int
		wants []wanted
		ends  []int // ms, by expert
	}{
		{"alone", 1, []wanted{{0, 0, device.Hinted}, {0, 1, device.Hinted}}, []int{120, 240}},
		{"passes in a transfer", 1, []wanted{{0, 0, device.Hinted}, {57, 1, device.Demanded}}, []int{240, 180}},
		{"passes in a start", 1, []wanted{{0, 0, device.Hinted}, {3, 1, device.Demanded}}, []int{240, 130}},
		{"passes what is planned", 1, []wanted{{0, 0, 7}, {57, 1, device.Demanded}}, []int{240, 180}},
		{"a plan passes a prefetch", 1, []wanted{{0, 0, device.Hinted}, {57, 1, 0}}, []int{240, 180}},
		{"as urgent", 1, []wanted{{0, 0, device.Demanded}, {57, 1, device.Demanded + 9}}, []int{120, 240}},
		{"beside it", 2, []wanted{{0, 0, device.Hinted}, {57, 1, device.Demanded}}, []int{237, 177}},
		{"two pass", 2, []wanted{{0, 0, device.Hinted}, {57, 1, device.Demanded}, {58, 2, device.Demanded}}, []int{337, 177, 277}},
		{"promoted as it runs", 1, []wanted{{0, 0, device.Hinted}, {30, 0, device.Demanded}, {57, 1, device.Demanded}}, []int{120, 240}},
		{"promoted as it stands", 1, []wanted{{0, 0, device.Hinted}, {57, 1, device.Demanded}, {100, 0, device.Demanded}, {110, 2, device.Demanded}}, []int{240, 180, 360}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, open := large()
				s.Loads = tc.loads
				d := open(t)
				checkEnds(t, tc.wants, tc.ends, func(w wanted) *device.Ticket {
					return d.Load(t.Context(), forward.ExpertID{Expert: w.of}, w.priority)
				})
			})
		})
	}
}

// A load that stands still ends when nobody wants it any more, and gives its bytes back.
func TestCancelBetweenPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, open := large()
		d := open(t)
		ctx, end := context.WithCancel(t.Context())
		stands := d.Load(ctx, forward.ExpertID{}, device.Hinted)
		time.Sleep(57 * time.Millisecond)
		demanded := d.Load(t.Context(), forward.ExpertID{Expert: 1}, device.Demanded)
		time.Sleep(43 * time.Millisecond)
		end()
		synctest.Wait()
		if used := d.Memory().Used; used != 10*pieceBytes || !errors.Is(stands.Err(), device.ErrCancelled) {
			t.Errorf("%d bytes are used, %v", used, stands.Err())
		}
		if err := demanded.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		d.wantTime(180)
	})
}

// How long loads stood still counts when they come to their end.
func TestStood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, open := large()
		s.Loads = 1
		d := open(t)
		stood := func() float64 {
			stats := map[string]float64{}
			d.Report(stats)
			return stats["paced_load_stood_seconds_total"]
		}
		hinted := d.Load(t.Context(), forward.ExpertID{}, device.Hinted)
		time.Sleep(57 * time.Millisecond) // it stands from 60 on, for the 120 of the other
		if err := d.Load(t.Context(), forward.ExpertID{Expert: 1}, device.Demanded).Wait(t.Context()); err != nil || stood() != 0 {
			t.Errorf("%v, %v s", err, stood())
		}
		if err := hinted.Wait(t.Context()); err != nil || stood() != 0.12 {
			t.Errorf("%v, %v s, want 0.12", err, stood())
		}
	})
}
