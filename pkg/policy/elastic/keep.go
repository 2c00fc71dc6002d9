package elastic

import (
	"cmp"
	"math"
	"slices"
)

// retired is a replica that is loaded and not used.
type retired struct {
	w            *work
	expert, host int
	since        float64
}

// keep leaves replicas loaded that are not used any more, until their time is
// over or somebody needs the memory. Those go first that were retired first.
func (r *round) keep() {
	var all []retired
	for i := range r.hosts {
		r.hosts[i].kept = 0
	}
	for _, w := range r.layers {
		all = append(all, r.retiredOf(w)...)
	}
	slices.SortStableFunc(all, func(a, b retired) int { return cmp.Compare(b.since, a.since) })
	for _, one := range all {
		h := &r.hosts[one.host]
		if h.full || h.used+h.kept >= h.slots || beyond(one.w.next) >= r.cap(math.MaxInt32) {
			one.w.why.count(byPressure, 1)
			continue
		}
		h.kept++
		one.w.next.put(one.expert, one.host, kept)
	}
}

// beyond is how many replicas a layer has beyond each expert's first, loaded ones that are
// not used too.
func beyond(l layout) (n int) {
	for _, spots := range l {
		n += max(0, len(spots)-1)
	}
	return n
}

// retiredOf are a layer's replicas that are loaded and not used, but for those
// whose time is over and those of experts that go to zero.
func (r *round) retiredOf(w *work) (all []retired) {
	before := w.kept
	w.kept = map[at]float64{}
	for e, spots := range w.old {
		for _, s := range spots {
			if s.want == cold || w.next.on(e, s.host) != 0 || w.idle[e] {
				continue
			}
			since, known := before[at{e, r.hosts[s.host].id}]
			if !known || s.want == warm {
				since = r.retiredSince(w, e)
			}
			if r.now-since >= cmp.Or(w.copiesStay, r.c.mode.keepAlive) {
				w.why.count(byAge, 1)
				continue
			}
			if s.want == kept {
				w.kept[at{e, r.hosts[s.host].id}] = since
			}
			all = append(all, retired{w, e, s.host, since})
		}
	}
	return all
}

// retiredSince is from when on a replica that is retired now is kept. Where a policy says for
// how long copies stay, the time counts in which it served and was not needed.
func (r *round) retiredSince(w *work, e int) float64 {
	if w.copiesStay > 0 && !math.IsNaN(w.surplus[e]) {
		return w.surplus[e]
	}
	return r.now
}

func placements(l layout) (n int) {
	for _, spots := range l {
		n += len(spots)
	}
	return n
}
