package offload

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// host is one host's memory, link and device.
type host struct {
	*engine
	number  int
	m       *residency.Machine
	outlook *residency.Outlook

	running int     // the unit that the link moves, or none
	target  float64 // bytes at which its load ends
	stop    float64 // bytes at which a piece ends that a more urgent load waits for, or none
	debt    float64 // bytes that the link still moves of a load that was cancelled

	known   int   // the step that hints or rows have told of
	reached int   // the layer of it that they have told of; -1: none
	decodes bool  // rows of answers have come of it
	hinted  []int // units with a hint's reference, or without room for one, and some that had one

	groups [][]int // units of this layer that have rows: the host has room for one group at a time
	have   int     // those of the first group that are there
	short  []int   // those of it for which there was no room
	until  float64 // when the call with the first group ends
	calls  bool    // it runs
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

// dispatch is for the rows of a layer that come to the host, if any do. How they find their experts
// counts before anything is done about those that are not there.
func (h *host) dispatch(layer int) {
	units := h.asked(layer)
	if len(units) == 0 {
		return
	}
	h.begin(h.step)
	h.decodes = h.phase == &h.r.Decode
	h.advance(layer)
	for _, i := range units {
		h.meet(i)
	}
	for _, i := range units {
		h.outlook.Visit(h.unit(i))
		if h.uses != nil {
			h.uses[i] = h.uses[i][1:]
		}
	}
	h.m.Rerank()
	h.pending++
	h.groups = h.fit(units)
	h.lend()
}

// meet counts how rows find a unit.
func (h *host) meet(i int) {
	s := &h.units[i]
	switch h.m.Phase(h.unit(i)) {
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
}

// fit shares units out to groups that the host has room for; what it holds comes first, so that
// none of that goes for another one that rows wait for.
func (h *host) fit(units []int) (groups [][]int) {
	slices.SortStableFunc(units, func(a, b int) int {
		switch x, y := h.holds(a), h.holds(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	return slices.Collect(slices.Chunk(units, h.roomFor()))
}

// lend wants the units of the first group.
func (h *host) lend() {
	h.have = 0
	for _, i := range h.groups[0] {
		h.units[i].demanded = true
	}
	h.demand(h.groups[0])
}

// demand wants units that rows wait for. What is fetched ahead gives its room where there is none.
func (h *host) demand(units []int) {
	for {
		h.short = nil
		for _, i := range units {
			h.m.Want(residency.Want{Unit: h.unit(i), Bytes: int64(h.w.ExpertBytes), Urgency: residency.Demanded})
			h.do()
		}
		if len(h.short) == 0 || !h.yield(len(h.short)) {
			return
		}
		units = h.short
	}
}

// yield gives up loads for hints, so many, those first that are worth least.
func (h *host) yield(units int) (gave bool) {
	all := slices.DeleteFunc(slices.Clone(h.hinted), func(i int) bool { return !h.units[i].hinted || h.m.Bytes(h.unit(i)) == 0 })
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(h.worth(a), h.worth(b)) })
	for _, i := range all[:min(units, len(all))] {
		s := &h.units[i]
		s.hinted, s.roomless = false, true
		h.m.Release(h.unit(i))
		gave = true
	}
	h.do()
	return gave
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
			h.resume(i)
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
	if h.below != nil && h.below.at != nil {
		h.below.at.pace() // rows may wait for what waits for it
	}
}

// isReady is for a unit that somebody waited for.
func (h *host) isReady(i int) {
	s := &h.units[i]
	if s.hinted {
		s.hinted = false
		h.m.Release(h.unit(i))
	}
	if s.demanded {
		s.demanded = false
		h.have++
		h.compute()
	}
}

// refuse is for a unit that has no room now.
func (h *host) refuse(i int) {
	s := &h.units[i]
	s.hinted = false
	if s.demanded {
		h.short = append(h.short, i)
		return
	}
	s.roomless = true
	h.r.Refused++
}

// settled reports whether the rows that have come can be computed, if there are any.
func (h *host) settled() bool { return len(h.groups) == 0 || h.have == len(h.groups[0]) }

// compute calls the device with the first group, when all of it is there.
func (h *host) compute() {
	if h.hold || h.calls || len(h.groups) == 0 || !h.settled() {
		return
	}
	h.calls, h.until = true, h.now+h.takes(h.groups[0])
}

// computed is for a call that has ended: its experts are free, and what had no room may have some.
func (h *host) computed() {
	h.calls = false
	for _, i := range h.groups[0] {
		h.m.Release(h.unit(i))
		h.do()
	}
	if h.groups = h.groups[1:]; len(h.groups) > 0 {
		h.lend()
		return
	}
	h.pending--
	h.retry()
}
