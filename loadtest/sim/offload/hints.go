package offload

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/residency"
)

// What a host does about hints, as services/expert/hints does.

// hear takes in what a predictor says of a step at a layer. A host hears of layers of which it is to
// fetch something, and of all in the next step.
func (h *host) hear(a arrival) {
	var mine []Look
	for _, look := range a.looks {
		if fetch := h.own(look); look.Next || len(fetch) > 0 {
			look.Fetch = fetch
			mine = append(mine, look)
		}
	}
	switch {
	case len(mine) == 0:
		return
	case a.step < h.known:
		h.drop(mine...)
		return
	}
	h.begin(a.step)
	h.advance(a.layer)
	h.pass(a)
	for _, look := range mine {
		h.tell(look)
	}
	h.m.Rerank()
	if h.policy.Distance < 0 {
		return
	}
	for _, one := range h.due(mine) {
		h.hint(one)
	}
}

// pass is for what a gate has chosen: what is loading of its layer, and is not among that, is given up.
func (h *host) pass(a arrival) {
	if !h.policy.Chosen || a.layer < 0 || h.w.Steps[a.step].Prefill {
		return
	}
	chosen := h.w.Loads(a.step, a.layer)
	h.sweep(func(i int) bool {
		return h.units[i].due != h.known || i/h.w.Experts != a.layer || chosen[i%h.w.Experts] > 0
	})
	h.retry()
}

// due are the hints that a host follows, those first that are worth most: the first begins at once where the link is
// free, and has the room.
func (h *host) due(looks []Look) (all []hinted) {
	for _, look := range looks {
		due := h.known
		switch {
		case look.Next:
			due++
		case look.Target <= h.reached:
			h.drop(look)
			continue
		}
		ahead := h.layers(due, look.Target)
		if h.policy.Near && ahead > h.roomFor() {
			h.r.Refused += len(look.Fetch)
			continue
		}
		for _, one := range look.Fetch {
			all = append(all, hinted{look.Target*h.w.Experts + one.Expert, due, float64(one.Chance), ahead})
		}
	}
	slices.SortStableFunc(all, func(a, b hinted) int { return cmp.Compare(b.worth(), a.worth()) })
	return all
}

// hinted is a unit that a hint names for a step, so many layers ahead.
type hinted struct {
	unit, due int
	chance    float64
	ahead     int
}

func (n hinted) worth() float64 { return n.chance / float64(n.ahead) }

// own are the hints for experts of the host.
func (h *host) own(look Look) (fetch []Hint) {
	for _, one := range look.Fetch {
		if h.engine.at(look.Target*h.w.Experts+one.Expert) == h.number {
			fetch = append(fetch, one)
		}
	}
	return fetch
}

func (h *host) drop(looks ...Look) {
	for _, look := range looks {
		h.r.Dropped += len(look.Fetch)
	}
}

// tell has the order know.
func (h *host) tell(look Look) {
	if look.Told != nil {
		h.outlook.Tell(0, look.Target, look.Told)
	}
	if !look.Next && look.Target <= h.reached {
		return
	}
	for _, one := range look.Fetch {
		h.outlook.Await(h.unit(look.Target*h.w.Experts + one.Expert))
	}
}

// hint wants what is to be fetched.
func (h *host) hint(n hinted) {
	s := &h.units[n.unit]
	if s.due != n.due {
		s.due, s.chance = n.due, 0
	}
	s.chance = max(s.chance, n.chance)
	h.rank(n.unit)
}

// layers is how many there are to one of a step.
func (h *host) layers(due, target int) int {
	return max(1, (due-h.known)*h.w.Layers+target-h.reached)
}

// ahead is how many layers there are to a unit's, for which it was hinted.
func (h *host) ahead(i int) int { return h.layers(h.units[i].due, i/h.w.Experts) }

// worth is the chance of a unit by the layers that are left.
func (h *host) worth(i int) float64 { return h.units[i].chance / float64(h.ahead(i)) }

// rank wants a unit as a hint, as urgently as it is by now.
func (h *host) rank(i int) {
	u, s := h.unit(i), &h.units[i]
	if h.m.Phase(u) == residency.Held {
		s.roomless = false
		return
	}
	if s.hinted {
		return
	}
	if !slices.Contains(h.hinted, i) {
		h.hinted = append(h.hinted, i)
	}
	s.hinted, s.roomless = true, false
	h.m.Want(residency.Want{Unit: u, Bytes: int64(h.w.ExpertBytes), Urgency: residency.Hinted})
	h.do()
}

// begin says that a step has begun.
func (h *host) begin(step int) {
	if step == h.known {
		return
	}
	h.known, h.reached, h.decodes = step, -1, false
	h.sweep(func(i int) bool { return h.units[i].due >= step })
	h.outlook.Step()
	h.outlook.At(0, -1)
}

// advance says that the step has reached a layer: hints for those before are over, as are those for
// it whose loads have not begun, and the rest is ranked anew.
func (h *host) advance(layer int) {
	if layer <= h.reached {
		return
	}
	h.reached = layer
	h.outlook.At(0, layer)
	h.m.Rerank()
	h.sweep(func(i int) bool {
		to := i / h.w.Experts
		return h.units[i].due > h.known || to > layer || to == layer && h.m.Phase(h.unit(i)) == residency.Loading
	})
	h.retry()
}

// sweep gives up the hints that are not to stay.
func (h *host) sweep(stays func(i int) bool) {
	still := h.hinted[:0]
	for _, i := range slices.Clone(h.hinted) {
		switch s := &h.units[i]; {
		case !s.hinted && !s.roomless:
		case stays(i):
			still = append(still, i)
		case s.hinted:
			s.hinted = false
			h.m.Release(h.unit(i))
		default:
			s.roomless = false
		}
	}
	h.hinted = still
	h.do()
}

// retry ranks hints anew, those first that are worth most, for which there may be room by now.
func (h *host) retry() {
	all := slices.DeleteFunc(slices.Clone(h.hinted), func(i int) bool {
		s := &h.units[i]
		return !s.hinted && !s.roomless || s.due <= h.known && i/h.w.Experts <= h.reached
	})
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(h.worth(b), h.worth(a)) })
	for _, i := range all {
		h.rank(i)
	}
}

// outstanding reports whether the load of a hint has not ended.
func (h *host) outstanding() bool {
	for _, i := range h.hinted {
		if h.units[i].hinted {
			return true
		}
	}
	return false
}

func (h *host) roomFor() int { return max(1, int(h.each()/h.w.ExpertBytes)) }
