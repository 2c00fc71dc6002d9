package offload

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// aim says up to where the running unit's bytes move: those of the link's latency, and of what else a
// load takes, are among them.
func (h *host) aim() {
	link, more := h.Link, h.Beside.Load
	if h.units[h.running].fetching {
		link, more = h.Below.Link, 0
	}
	h.target, h.stop = h.w.ExpertBytes+(link.Latency+more)*link.Bandwidth, none
}

func (h *host) load(i int) {
	s := &h.units[i]
	s.ahead, s.moved = !s.demanded, 0
	if s.ahead {
		h.phase.Fetches++
	} else {
		h.phase.Loads++
	}
	if h.below != nil {
		s.below = h.below.hold(h.unit(i))
		s.fetching = !s.below
	}
	if !s.fetching {
		h.owe(i)
	}
	h.resume(i)
}

// owe has the link first move what it still moves of a load that was cancelled.
func (h *host) owe(i int) { h.units[i].moved, h.debt = -h.debt, 0 }

func (h *host) resume(i int) {
	h.running = i
	h.aim()
	if h.units[i].fetching {
		h.below.join(h)
	}
}

// stand ends the running of a unit's load.
func (h *host) stand() {
	if h.units[h.running].fetching {
		h.below.leave(h)
	}
	h.running, h.stop = none, none
}

func (h *host) cancel(i int) {
	s := &h.units[i]
	if h.running == i {
		if !s.fetching {
			h.debt += h.pieceEnd(s.moved) - s.moved
		}
		h.stand()
	}
	if !s.fetching {
		h.r.Wasted += max(0, s.moved)
	}
	h.arrived(i)
	h.m.Stopped(h.unit(i))
}

// arrived is for a unit that the tier below need not keep for a load any more.
func (h *host) arrived(i int) {
	s := &h.units[i]
	if s.below {
		h.below.release(h.unit(i))
	}
	s.moved, s.fetching, s.below = 0, false, false
}

// pieceEnd is where the piece ends in which a load is.
func (h *host) pieceEnd(moved float64) float64 {
	return min(h.target, math.Ceil(max(0, moved)/h.Piece)*h.Piece)
}

// pace lets a load stand at the end of its piece if rows wait for another one.
func (h *host) pace() {
	if h.running == none || h.stop >= 0 || h.units[h.running].demanded {
		return
	}
	if h.rowsWait() || h.below.presses(h) {
		h.stop = (math.Floor(h.units[h.running].moved/h.Piece) + 1) * h.Piece
	}
}

// rowsWait reports whether rows wait for a load that does not run.
func (h *host) rowsWait() bool {
	if len(h.groups) == 0 {
		return false
	}
	for _, i := range h.groups[0] {
		if h.units[i].demanded && i != h.running && h.m.Phase(h.unit(i)) != residency.Held {
			return true
		}
	}
	return false
}

// moved is for a link that has moved a load, or the piece that was to be its last for now.
func (h *host) moved() {
	i := h.running
	s := &h.units[i]
	switch {
	case s.moved < h.target-1e-6 && h.stop >= 0:
		s.moved = h.stop
		h.stop = none
		if !h.m.Piece(h.unit(i)) {
			h.stand()
		} else if h.below.presses(h) {
			h.below.leave(h)
			h.below.join(h)
		}
		h.do()
		return
	case s.fetching:
		h.below.leave(h)
		s.fetching, s.below = false, h.below.keep(h.unit(i))
		h.owe(i)
		h.aim()
		h.pace()
		return
	}
	h.arrived(i)
	h.running, h.stop = none, none
	s.fetched = s.ahead && !s.demanded
	if s.ahead && s.demanded {
		h.r.Overdue += h.w.ExpertBytes
	}
	h.m.Loaded(h.unit(i))
	h.do()
	if len(h.short) > 0 {
		h.demand(h.short)
	}
}
