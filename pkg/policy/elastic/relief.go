package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/static"
)

// Relief is for as long as devices throttle: everything else is decided as if it were not
// there, and as if no device were slowed, so that the plan is the one from before when all
// are cool again.

// leaveOutRelief takes replicas that relieve others out of what is in force, unless the
// others are gone.
func (r *round) leaveOutRelief(w *work) {
	w.relieved = map[int]int{}
	for a := range w.relief {
		if h, here := r.index[a.host]; here && w.old.on(a.expert, h) == warm && w.old.count(a.expert, warm) > 1 {
			w.relieved[a.expert] = h
			w.old[a.expert] = slices.DeleteFunc(w.old[a.expert], func(s spot) bool { return s.host == h })
		}
	}
}

// relieve gives experts that only hosts with throttling devices have one host more each, as
// far as nothing else needs the room. What relieved others before stays where it is.
func (r *round) relieve(w *work) {
	w.relief = map[at]bool{}
	if len(r.cool) < len(r.hosts) {
		r.addRelief(w)
	}
	for e, h := range w.relieved {
		w.old.put(e, h, warm)
		if w.next.on(e, h) == 0 {
			w.why.count(byCooling, 1)
		}
	}
}

func (r *round) addRelief(w *work) {
	left, sums := r.cap(math.MaxInt32), r.hostLoads(w.next, w.loads)
	for e := range w.next {
		left -= max(0, w.next.count(e, warm)-1)
	}
	throttles := func(h int) bool { return r.hosts[h].throttles }
	for e := 0; e < len(w.next) && left > 0; e++ {
		h := static.Relief(w.next.having(e, warm), throttles, func() int { return r.reliever(w, e, sums) })
		if h < 0 {
			continue
		}
		left--
		r.hosts[h].used++
		w.next.put(e, h, warm)
		w.relief[at{e, r.hosts[h].id}] = true
		if w.loads != nil {
			sums[h] += w.loads[e]
		}
		if before, had := w.relieved[e]; !had || before != h {
			w.why.count(byRelief, 1)
		}
	}
}

// reliever is the host without a throttling device that relieves others of an expert: where
// it is loaded, or else the one with least load that has room; -1 if none has.
func (r *round) reliever(w *work, e int, sums []float64) int {
	var loaded []int
	for _, h := range w.old.having(e, kept) {
		if !r.hosts[h].throttles {
			loaded = append(loaded, h)
		}
	}
	if h, had := w.relieved[e]; had && !r.hosts[h].throttles {
		loaded = []int{h}
	}
	if at := r.room(loaded, sums); at >= 0 {
		return at
	}
	return r.room(r.cool, sums)
}
