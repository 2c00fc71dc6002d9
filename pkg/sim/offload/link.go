package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// latency is that of the link, and what else a load takes, in bytes.
func (h *host) latency() float64 { return (h.Link.Latency + h.Beside.Load) * h.Link.Bandwidth }

func (h *host) load(i int) {
	s := &h.units[i]
	s.moved, s.ahead = -h.debt, !s.demanded
	h.debt = 0
	h.running, h.target, h.stop = i, h.w.ExpertBytes+h.latency(), none
	if s.ahead {
		h.phase.Fetches++
	} else {
		h.phase.Loads++
	}
}

func (h *host) cancel(i int) {
	s := &h.units[i]
	if h.running == i {
		h.debt += h.pieceEnd(s.moved) - s.moved
		h.running = none
	}
	h.r.Wasted += max(0, s.moved)
	s.moved = 0
	h.m.Stopped(h.unit(i))
}

// pieceEnd is where the piece ends in which a load is.
func (h *host) pieceEnd(moved float64) float64 {
	return min(h.target, math.Ceil(max(0, moved)/h.Piece)*h.Piece)
}

// pace lets a load stand at the end of its piece if rows wait for another one, or if another one
// is for the layer that comes next and this one is not.
func (h *host) pace() {
	if h.running == none || h.stop >= 0 || h.units[h.running].demanded || !h.rowsWait() && (h.units[h.running].soon || !h.soonWaits()) {
		return
	}
	h.stop = (math.Floor(h.units[h.running].moved/h.Piece) + 1) * h.Piece
}

// soonWaits says whether a load for the layer that comes next waits.
func (h *host) soonWaits() bool {
	for _, i := range h.hinted {
		if s := &h.units[i]; s.hinted && s.soon && i != h.running && h.m.Phase(h.unit(i)) != residency.Held {
			return true
		}
	}
	return false
}

// rowsWait says whether rows wait for a load that does not run.
func (h *host) rowsWait() bool {
	from := h.layer * h.w.Experts
	for x := range h.w.Experts {
		if i := from + x; i >= 0 && h.at(i) == h.number && h.units[i].demanded && i != h.running && h.m.Phase(h.unit(i)) != residency.Held {
			return true
		}
	}
	return false
}

// moved is for a link that has moved a load, or the piece that was to be its last for now.
func (h *host) moved() {
	i := h.running
	s := &h.units[i]
	if s.moved < h.target-1e-6 && h.stop >= 0 {
		s.moved = h.stop
		h.stop = none
		if !h.m.Piece(h.unit(i)) {
			h.running = none
		}
		h.do()
		return
	}
	s.moved = 0
	h.running, h.stop = none, none
	s.fetched = s.ahead && !s.demanded
	if s.ahead && s.demanded {
		h.r.Overdue += h.w.ExpertBytes
	}
	h.m.Loaded(h.unit(i))
	h.do()
	h.again()
}
