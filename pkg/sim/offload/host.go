package offload

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// host is one host's memory, link and device.
type host struct {
	*engine
	number int
	m      *residency.Machine

	running int     // the unit that the link moves, or none
	target  float64 // bytes at which its load ends
	stop    float64 // bytes at which a piece ends that a more urgent load waits for, or none
	debt    float64 // bytes that the link still moves of a load that was cancelled

	hinted    []int // units with a hint's reference, and some that had one
	refused   []int // demanded units for which there was no room
	ready     []int // demanded units that may not compute yet
	called    bool  // the device has a call in this layer
	free      float64
	computing []busy // in order
}

// busy is a unit that computes.
type busy struct {
	unit  int
	until float64
}

// left is how many bytes the link moves until something is to be done.
func (h *host) left() float64 {
	to := h.target
	if h.stop >= 0 {
		to = min(to, h.stop)
	}
	return to - h.units[h.running].moved
}

func (h *host) holds(i int) bool { return h.m.Phase(h.unit(i)) == residency.Held }

// demand is for rows that came for a unit.
func (h *host) demand(i int) {
	u, s := h.unit(i), &h.units[i]
	found := h.m.Want(residency.Want{Unit: u, Bytes: int64(h.w.ExpertBytes), Urgency: residency.Demanded})
	switch found {
	case residency.Held:
		h.phase.Hits++
		if s.fetched {
			h.r.Used += h.w.ExpertBytes
		}
	case residency.Loading:
		h.phase.Late++
	case residency.Cold, residency.Queued, residency.Evicting:
		h.phase.Misses++
	}
	s.fetched = false
	h.outlook.Visit(u)
	if h.uses != nil {
		h.uses[i] = h.uses[i][1:]
	}
	if s.hinted {
		s.hinted = false
		h.m.Release(u)
	}
	h.do()
}

// hint is for a unit that is to be fetched; soon goes before other hints.
func (h *host) hint(i int, soon bool) {
	u, s := h.unit(i), &h.units[i]
	if s.hinted && (s.soon || !soon) || h.m.Phase(u) == residency.Held {
		return
	}
	want := residency.Want{Unit: u, Bytes: int64(h.w.ExpertBytes), Urgency: residency.Hinted}
	if soon {
		want.Urgency = residency.Planned
	}
	again := s.hinted
	s.hinted, s.soon = true, soon
	h.m.Want(want)
	if again {
		h.m.Release(u)
	} else {
		h.hinted = append(h.hinted, i)
	}
	h.do()
}

// drop gives up hints for a layer and those before.
func (h *host) drop(layer int) {
	still := h.hinted[:0]
	for _, i := range slices.Clone(h.hinted) {
		switch {
		case !h.units[i].hinted:
		case h.units[i].due > h.step || i/h.w.Experts > layer:
			still = append(still, i)
		default:
			h.units[i].hinted = false
			h.m.Release(h.unit(i))
		}
	}
	h.hinted = still
	h.do()
}

// do does what the machine says.
func (h *host) do() {
	for a, ok := h.m.Next(); ok; a, ok = h.m.Next() {
		i := h.index(a.Unit)
		s := &h.units[i]
		switch a.Kind {
		case residency.Load:
			h.load(i)
		case residency.Resume:
			h.running, h.target, h.stop = i, h.w.ExpertBytes+h.latency(), none
		case residency.Cancel:
			h.cancel(i)
		case residency.Evict:
			if s.fetched {
				s.fetched = false
				h.r.Wasted += h.w.ExpertBytes
			}
			h.m.Evicted(a.Unit)
		case residency.Ready:
			h.isReady(i)
		case residency.Refuse:
			h.refuse(i)
		}
	}
	h.pace()
}

// isReady is for a unit that somebody waited for.
func (h *host) isReady(i int) {
	s := &h.units[i]
	if s.hinted {
		s.hinted = false
		h.m.Release(h.unit(i))
	}
	switch {
	case !s.demanded:
	case h.hold:
		h.ready = append(h.ready, i)
	default:
		h.compute(i)
	}
}

func (h *host) takeReady() {
	for _, i := range h.ready {
		h.compute(i)
	}
	h.ready = h.ready[:0]
}

// compute is for a unit that is held and has rows.
func (h *host) compute(i int) {
	rows := h.w.Loads(h.step, i/h.w.Experts)[i%h.w.Experts]
	seconds := h.Device.Seconds(cost.Access{Bytes: h.w.ExpertBytes, Rows: int(rows)})
	if !h.called {
		h.called = true
		seconds += h.Device.Call
	}
	h.free = max(h.now, h.free) + seconds
	h.computing = append(h.computing, busy{i, h.free})
	h.units[i].demanded = false
	h.pending--
}

// computed is for the first unit that computes: its rows are done.
func (h *host) computed() {
	i := h.computing[0].unit
	h.computing = h.computing[1:]
	h.m.Release(h.unit(i))
	h.do()
	h.again()
}

// refuse is for a unit that has no room now. What was fetched ahead makes room for rows.
func (h *host) refuse(i int) {
	if !h.units[i].demanded {
		h.units[i].hinted = false
		h.r.Refused++
		return
	}
	h.refused = append(h.refused, i)
}

// again demands units anew that had no room, when something may have changed.
func (h *host) again() {
	if len(h.refused) == 0 {
		return
	}
	for _, i := range h.hinted {
		if h.units[i].hinted {
			h.units[i].hinted = false
			h.m.Release(h.unit(i))
			h.do()
		}
	}
	wants := h.refused
	h.refused = nil
	for _, i := range wants {
		h.m.Want(residency.Want{Unit: h.unit(i), Bytes: int64(h.w.ExpertBytes), Urgency: residency.Demanded})
		h.do()
	}
}
