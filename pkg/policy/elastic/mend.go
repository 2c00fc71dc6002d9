package elastic

import (
	"cmp"
	"slices"
)

// trim takes replicas off hosts that hold less than is planned on them, those
// first that others have as well, and of these the ones with least load.
func (r *round) trim() {
	for i := range r.hosts {
		if h := &r.hosts[i]; h.used > h.slots {
			r.trimHost(i)
		}
	}
}

// replica is an expert of a layer on a host that is to be trimmed.
type replica struct {
	w      *work
	expert int
	alone  int // 1: no other host has it
	load   float64
}

func (r *round) trimHost(i int) {
	var on []replica
	for _, w := range r.layers {
		for e := range w.old {
			if want := w.old.on(e, i); want == warm || want == cold {
				one := replica{w: w, expert: e}
				if n := w.old.count(e, warm); n < 2 {
					one.alone = 1
				} else if w.loads != nil {
					one.load = w.loads[e] / float64(n)
				}
				on = append(on, one)
			}
		}
	}
	slices.SortStableFunc(on, func(a, b replica) int { return cmp.Or(a.alone-b.alone, cmp.Compare(a.load, b.load)) })
	for _, one := range on[:r.hosts[i].used-r.hosts[i].slots] {
		one.w.old[one.expert] = slices.DeleteFunc(one.w.old[one.expert], func(s spot) bool { return s.host == i })
		one.w.why.count(byMemory, 1)
		r.hosts[i].used--
	}
}

// mend makes the least of changes that must be: experts go to zero and come back,
// surplus replicas are retired, and whatever has no host gets one. False says that
// there is no room for that.
func (r *round) mend() bool {
	r.each(r.layers, func(w *work) {
		w.next = w.old.clone()
		for e := range w.next {
			r.settle(w, e)
		}
	})
	for _, w := range r.layers {
		r.use(w.old, -1)
		r.use(w.next, 1)
	}
	return !slices.ContainsFunc(r.layers, func(w *work) bool {
		r.moveWhole(w)
		return !r.placeMissing(w)
	})
}

// settle decides on an expert that has a host; it takes no more slots than before.
func (r *round) settle(w *work, e int) {
	on, asleep := w.next.having(e, warm), w.next.having(e, cold)
	switch {
	case len(on)+len(asleep) == 0:
	case w.idle[e] && len(on) > 0:
		w.next.set(e, cold, on[0])
		w.why.count(toZero, 1)
	case w.idle[e]:
		w.next.set(e, cold, asleep[0])
	case len(on) == 0:
		w.next.set(e, warm, asleep[0])
		w.why.count(byWake, 1)
	case len(on) > w.stay[e]:
		w.next.set(e, warm, r.retire(w, e, on)...)
		w.why.count(bySurplus, len(on)-w.stay[e])
	default:
		w.next.set(e, warm, on...)
	}
}

// retire leaves an expert the hosts with least load of their own.
func (r *round) retire(w *work, e int, on []int) []int {
	sums := r.hostLoads(w.old, w.loads)
	slices.SortStableFunc(on, func(a, b int) int { return cmp.Compare(sums[a], sums[b]) })
	on = on[:w.stay[e]]
	slices.Sort(on)
	return on
}

// placeMissing gives experts that have no host one: where it is loaded, or else the one
// with least load that has room.
func (r *round) placeMissing(w *work) bool {
	var sums []float64
	for e := range w.next {
		if w.next.count(e, warm)+w.next.count(e, cold) > 0 {
			continue
		}
		if sums == nil {
			sums = r.hostLoads(w.next, w.loads)
		}
		at := r.room(w.next.having(e, kept), sums)
		if at < 0 {
			at = r.room(w.window, sums)
		}
		if at < 0 {
			at = r.room(r.all(), sums)
		}
		if at < 0 {
			return false
		}
		want := warm
		if w.idle[e] {
			want = cold
		} else if w.loads != nil {
			sums[at] += w.loads[e]
		}
		w.next.set(e, want, at)
		r.hosts[at].used++
		w.why.count(byMissing, 1)
	}
	return true
}

// room is the host with least load that has any, of several the one with least
// planned on it; -1 if none has.
func (f *fleet) room(among []int, sums []float64) int {
	best := -1
	for _, h := range among {
		if f.hosts[h].free() == 0 {
			continue
		}
		if best < 0 || cmp.Or(cmp.Compare(sums[h], sums[best]), f.hosts[h].used-f.hosts[best].used) < 0 {
			best = h
		}
	}
	return best
}

func (f *fleet) all() []int {
	all := make([]int, len(f.hosts))
	for i := range all {
		all[i] = i
	}
	return all
}
