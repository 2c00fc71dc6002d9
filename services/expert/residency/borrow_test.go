package residency

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/services/expert/internal/rig"
)

// named has rows come by name, and waits until they are computed.
func (h *host) named(experts ...uint32) {
	h.t.Helper()
	if _, _, err := h.Named(0, rig.ID(experts...)); err != nil {
		h.t.Fatal(err)
	}
	h.computes(h.rows(1, 0, experts...))
}

// A function that is borrowed joins its group, and goes when no rows have come for its time.
func TestBorrowedGoes(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.named(1, 2, 3)
		h.awaitWarm(1, 2, 3)
		h.look(nil, time.Now().Add(2*time.Hour))
		h.awaitGone(1, 2, 3)
		h.awaitPhase(1, device.Cold)
	})
}

// A newer plan takes a borrowed function over.
func TestBorrowedIsPlanned(t *testing.T) {
	play(t, 0, hour, func(h *host) {
		h.plan([]uint32{0})
		h.awaitWarm(0)
		h.named(1, 2, 3)
		h.awaitWarm(1, 2, 3)
		if want, borrowed, _, _ := h.state(1, 2, 3); want != cold || !borrowed {
			t.Errorf("wanted %v, borrowed %v", want, borrowed)
		}
		h.plan([]uint32{0}, []uint32{1, 2, 3})
		if want, borrowed, _, _ := h.state(1, 2, 3); want != warm || borrowed {
			t.Errorf("wanted %v, borrowed %v", want, borrowed)
		}
		synctest.Wait()
		if n := h.fake.Loads(1); n != 1 {
			t.Errorf("%d loads", n)
		}
	})
}
