package elastic

import "slices"

// spread deals a layer's replicas out evenly when there are no rows to disturb
// and a host has come that has nothing.
func (r *round) spread(w *work) {
	if !slices.ContainsFunc(r.hosts, func(h host) bool { return h.idle && h.slots > 0 && !h.full }) {
		return
	}
	even := make([]float64, len(w.next))
	for e := range even {
		even[e] = 1
	}
	p := r.placed(w, w.want, even, false)
	if p == nil {
		p = w.next
	}
	if p = r.spreadCold(w, p); !equal(w.next, p) {
		r.adopt(w, p)
		w.why.count(bySpread, 1)
	}
}

// spreadCold gives hosts with fewest of a layer's cold experts some of those with most: else
// the one host that was there when the experts went to zero would load all of them when rows
// come. In a large fleet functions stay whole, and where they are.
func (r *round) spreadCold(w *work, l layout) layout {
	if w.window != nil {
		return l
	}
	l = l.clone()
	slots, colds := r.freeSlots(nil), make([]int, len(r.hosts))
	for e := range l {
		for _, s := range w.next[e] {
			slots[s.host]++
		}
		for _, s := range l[e] {
			slots[s.host]--
			if s.want == cold {
				colds[s.host]++
			}
		}
	}
	for e := range l {
		if l.count(e, warm) > 0 || l.count(e, cold) == 0 {
			continue
		}
		from := l.having(e, cold)[0]
		to := fewest(colds, slots)
		if to < 0 || colds[from]-colds[to] < 2 {
			continue
		}
		l.set(e, cold, to)
		colds[from], colds[to] = colds[from]-1, colds[to]+1
		slots[from], slots[to] = slots[from]+1, slots[to]-1
	}
	return l
}

// fewest is the host with fewest that has a slot; -1 if none has.
func fewest(colds, slots []int) int {
	best := -1
	for h, n := range colds {
		if slots[h] > 0 && (best < 0 || n < colds[best]) {
			best = h
		}
	}
	return best
}
