package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/place"
)

const (
	// leastGain is the share of the most loaded host's rows that a change has to
	// take off it, and soonGain that of one that follows another within a part of
	// the horizon.
	leastGain = 0.1
	soonGain  = 0.3
	soonPart  = 0.25
	// noRows is a rate that is none.
	noRows = 1e-3
	// anyChange is what a change costs beside its loads, in seconds: hosts join and
	// leave groups, and gates go over.
	anyChange = 10e-3
)

// improve places a layer's replicas anew where that is worth it.
func (r *round) improve(w *work) {
	switch {
	case r.c.mode.every > 0:
		if p := r.placed(w, w.loads, true); p != nil && w.loads != nil && !equal(w.next, p) {
			r.adopt(w, p)
			w.why.count(byInterval, 1)
		}
	case w.loads == nil || sum(w.loads) < noRows:
		r.spread(w)
	default:
		r.gain(w)
	}
}

// gain takes the placement that saves most: the one that keeps what is loaded
// where it is, or one that does not care.
func (r *round) gain(w *work) {
	now := r.cost(w, w.next)
	best, bestNet := layout(nil), 0.0
	var most prospect
	for _, reuse := range []bool{true, false} {
		p := r.placed(w, w.loads, reuse)
		if p == nil {
			continue
		}
		then := r.cost(w, p)
		saved := (now.rows - then.rows) * w.row.or(r.c.s.RowSeconds) * r.c.s.Horizon
		net := saved - max(0, then.seconds-now.seconds) - anyChange
		if net > bestNet && now.rows-then.rows > r.least(w, now.rows) {
			best, bestNet = p, net
			most = prospect{before: now.rows, after: then.rows, saved: saved, horizon: r.c.s.Horizon, loads: then.loads, seconds: then.seconds}
		}
	}
	if best != nil {
		r.adopt(w, best)
		w.why.count(byGain, 1)
		w.why.prospect = most
		w.gained = r.now
	}
}

// least is how many rows a second a change has to take off a host that has so
// many: more than chance makes of counts (two standard deviations of what is
// counted in a window), and a good part of them soon after another change.
func (r *round) least(w *work, rows float64) float64 {
	share := leastGain
	if r.now-w.gained < soonPart*r.c.s.Horizon {
		share = soonGain
	}
	return max(share*rows, 2*math.Sqrt(rows/countedWindow))
}

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
	if p := r.placed(w, even, false); p != nil && !equal(w.next, p) {
		r.adopt(w, p)
		w.why.count(bySpread, 1)
	}
}

func (r *round) adopt(w *work, l layout) {
	r.use(w.next, -1)
	r.use(l, 1)
	w.next = l
}

// placed is where the policy puts the replicas that are wanted, nil if they do
// not fit. Experts that are cold stay where they are.
func (r *round) placed(w *work, loads []float64, reuse bool) layout {
	state := place.State{Hosts: make([]place.Host, len(r.hosts))}
	own := make([]int, len(r.hosts))
	l := make(layout, len(w.next))
	for e := range w.next {
		n := w.want[e]
		if w.next.count(e, cold) > 0 || n == 0 || loads == nil {
			l[e] = w.next[e]
			continue
		}
		state.Experts = append(state.Experts, place.Expert{ID: uint32(e), Replicas: n, LoadEach: loads[e] / float64(n), Bytes: 1})
		for _, s := range w.next[e] {
			own[s.host]++
		}
		if reuse {
			state.Previous = append(state.Previous, r.loaded(w, e)...)
		}
	}
	for i := range r.hosts {
		state.Hosts[i] = place.Host{ID: r.hosts[i].id, Capacity: uint64(r.hosts[i].free() + own[i])}
	}
	p, err := r.c.mode.place(state)
	if err != nil {
		return nil
	}
	for _, one := range p.Replicas {
		l.put(int(one.Expert), r.index[one.Host], warm)
	}
	return l
}

// loaded are the hosts that hold an expert.
func (r *round) loaded(w *work, e int) (on []place.Warm) {
	for _, s := range w.next[e] {
		on = append(on, place.Warm{Expert: uint32(e), Host: r.hosts[s.host].id})
	}
	for _, s := range w.old[e] {
		if s.want == kept && w.next.on(e, s.host) == 0 {
			on = append(on, place.Warm{Expert: uint32(e), Host: r.hosts[s.host].id})
		}
	}
	return on
}

// outlook is what a layout asks of the hosts.
type outlook struct {
	rows    float64 // of the most loaded host, in a second
	loads   int     // of experts
	seconds float64 // that the busiest host loads
}

func (r *round) cost(w *work, l layout) (o outlook) {
	if sums := r.hostLoads(l, w.loads); len(sums) > 0 {
		o.rows = slices.Max(sums)
	}
	loads := make([]int, len(r.hosts))
	for e, spots := range l {
		for _, s := range spots {
			if had := w.old.on(e, s.host); s.want == warm && had != warm && had != kept {
				loads[s.host]++
				o.loads++
			}
		}
	}
	if o.loads > 0 {
		o.seconds = float64(slices.Max(loads)) * r.c.loading.or(r.c.s.LoadSeconds)
	}
	return o
}

func equal(a, b layout) bool { return slices.EqualFunc(a, b, slices.Equal) }

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}
