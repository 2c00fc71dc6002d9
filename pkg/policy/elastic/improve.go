package elastic

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/place"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// leastGain is the share of a layer's time that a change has to save, and
	// soonGain that of one that follows another within a part of the horizon. Where devices
	// dominate, half of that is enough.
	leastGain = 0.1
	soonGain  = 0.3
	soonPart  = 0.25
	// noRows is a rate that is none.
	noRows = 1e-3
	// anyChange is what a change costs beside its loads, in seconds: hosts join and
	// leave groups, and gates go over.
	anyChange = 10e-3
	// eachLoad is what a load costs beside its time: of equal changes the one with fewer is made.
	eachLoad = 1e-3
)

// sideBySide is how many layers are decided on at once: each as if the others stayed, so that
// what comes out does not depend on how many processors there are.
const sideBySide = 16

// improveBlock finds what each of some layers gains, and makes the changes that still can be
// when those before are made.
func (r *round) improveBlock(block []*work) {
	most := math.Max(8, float64(len(r.layers)*r.c.model.Experts))
	r.c.budget.fill(r.now, most, most/30)
	r.each(block, func(w *work) {
		w.trusted = r.trusted(w)
		w.found = r.find(w)
	})
	for _, w := range block {
		switch {
		case r.takeBack(w):
		case r.c.mode.every == 0 && !w.hasRows():
			r.spread(w)
		case r.c.mode.every > 0 || r.mayTry(w):
			r.take(w)
		}
	}
}

// find finds where a layer's replicas are better.
func (r *round) find(w *work) (best found) {
	switch {
	case r.c.mode.every > 0 && w.loads != nil:
		best.layout = r.placed(w, w.want, w.loads, true)
	case r.c.mode.every == 0 && w.hasRows() && !w.few && r.mayTry(w):
		best = r.gain(w)
	}
	return best
}

func (w *work) hasRows() bool { return w.loads != nil && sum(w.loads) >= noRows }

// found is a placement that gains something.
type found struct {
	layout
	prospect
}

// gain finds the placement that saves most; none, if none is worth it. Candidates have all
// replicas that are wanted, or fewer of them, as each is a message more in every step; they
// keep what is loaded where it is, or do not care.
func (r *round) gain(w *work) (best found) {
	now, bestNet := r.cost(w, w.next), 0.0
	for _, c := range r.candidates(w) {
		p := r.placed(w, c.want, w.loads, c.reuse)
		if p != nil {
			p = r.calm(w, p)
		}
		if p == nil {
			continue
		}
		then := r.cost(w, p)
		if float64(then.loads) > r.c.budget.left || !r.worthwhile(w, p, now.busy-then.busy) {
			continue
		}
		saved := (now.busy - then.busy) * r.c.s.Horizon
		net := saved - max(0, then.seconds-now.seconds) - anyChange - eachLoad*float64(then.loads)
		if net > bestNet && now.busy-then.busy > r.least(w, now) {
			best, bestNet = found{p, prospect{before: now, after: then, saved: saved, horizon: r.c.s.Horizon}}, net
		}
	}
	return best
}

// take makes the change that was found. Where layers before this one have taken the room or
// the moves that it needs, it is looked for again.
func (r *round) take(w *work) {
	most := w.found
	if most.layout != nil && (float64(most.after.loads) > r.c.budget.left || !r.fits(most.layout, w.next)) {
		most = r.find(w)
	}
	switch {
	case most.layout == nil || equal(w.next, most.layout):
		return
	case r.c.mode.every > 0:
		r.adopt(w, most.layout)
		w.why.count(byInterval, 1)
		return
	}
	r.c.budget.left -= float64(most.after.loads)
	r.try(w, (most.before.busy-most.after.busy)/max(most.before.busy, r.taken(w)))
	r.adopt(w, most.layout)
	w.why.count(byGain, 1)
	w.why.prospect = most.prospect
	w.gained = r.now
}

// candidate is a number of replicas of each expert, and whether they stay where
// they are loaded.
type candidate struct {
	want  []int
	reuse bool
}

// candidates are what gain chooses from.
func (r *round) candidates(w *work) []candidate {
	all := []candidate{{w.want, true}, {w.want, false}}
	if r.c.mode.whole != nil { // it has weighed fewer, and each asking takes long
		return all
	}
	for _, most := range []int{extra(w.want) / 2, extra(w.want) / 4, 0} { // beyond each expert's first
		if fewer := r.needed(w, most); extra(fewer) < extra(w.want) {
			all = append(all, candidate{fewer, true})
		}
	}
	return all
}

// least is how much of a second a change has to save in each one: more than chance
// makes of counted rows (two standard deviations of what is counted in a window),
// and a good part of the whole soon after another change.
func (r *round) least(w *work, now outlook) float64 {
	share := leastGain
	if r.now-w.gained < soonPart*r.c.s.Horizon {
		share = soonGain
	}
	if w.trusted {
		share /= 2
	}
	row := now.busy / max(now.rows, noRows) // what one takes depends on how many there are
	return max(share*max(now.busy, r.taken(w)), 2*math.Sqrt(now.rows/countedWindow)*row)
}

// taken is how much of a second a layer takes, as attention tells; 0 if it does not.
func (r *round) taken(w *work) float64 { return w.heard.took.or(0) * w.rate }

func (r *round) row(w *work) float64 { return w.heard.row.or(r.c.s.RowSeconds) }

func (r *round) adopt(w *work, l layout) {
	r.use(w.next, -1)
	r.use(l, 1)
	w.next = l
}

// placed is where the policy puts the replicas that are wanted, nil if they do
// not fit. Experts that are cold stay where they are.
func (r *round) placed(w *work, want []int, loads []float64, reuse bool) layout {
	if r.c.mode.whole != nil {
		return r.decided(w, ask{from: w.next, want: want, loads: loads, spare: r.cap(extra(want)), reuse: reuse})
	}
	state := place.State{Hosts: make([]place.Host, len(r.hosts))}
	own := make([]int, len(r.hosts))
	l := make(layout, len(w.next))
	for e := range w.next {
		n := want[e]
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
	for i, free := range r.freeSlots(w.window) {
		state.Hosts[i] = place.Host{ID: r.hosts[i].id, Capacity: uint64(free + own[i])}
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
	rows     float64 // of the most loaded host, in a second
	messages float64 // in a second
	busy     float64 // seconds in a second that rows and messages make the layer take
	loads    int     // of experts
	seconds  float64 // that the busiest host loads
}

func (r *round) cost(w *work, l layout) (o outlook) {
	if sums := r.hostLoads(l, w.loads); len(sums) > 0 {
		o.rows = slices.Max(sums)
	}
	if !r.replay(w, l, &o) {
		o.messages = messages(l, w.loads, w.rate)
		o.busy = o.rows*r.row(w) + o.messages*r.message
		if r.c.mode.whole != nil {
			o.busy = r.busiest(w, l) + o.messages*r.message
		}
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
		o.seconds = float64(slices.Max(loads)) * r.loading
	}
	return o
}

// messages are how many gates send in a second: in each step one to each replica of
// an expert, but never more than the expert has rows.
func messages(l layout, loads []float64, steps float64) (n float64) {
	for e, load := range loads {
		n += min(load, steps*float64(max(1, l.count(e, warm))))
	}
	return n
}

func equal(a, b layout) bool { return slices.EqualFunc(a, b, slices.Equal) }

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}

// access is what hosts take for messages of a layer: a part that each message has, such as
// reading weights, and a part that each row has. It is a fit by least squares to what hosts
// tell, the newest most.
type access struct{ mm, mr, rr, mt, rt, n float64 }

const (
	accessKeep = 0.98
	// accessLeast is after how many samples of functions a fit is believed.
	accessLeast = 8
)

func (a *access) add(f *pb.FunctionLoad, seconds float64) {
	m, r := float64(f.Messages), float64(f.Rows)
	for _, v := range []*float64{&a.mm, &a.mr, &a.rr, &a.mt, &a.rt, &a.n} {
		*v *= accessKeep
	}
	w := 1 / r // a sample of many rows scatters as much more
	a.mm += w * m * m
	a.mr += w * m * r
	a.rr += w * r * r
	a.mt += w * m * seconds
	a.rt += w * r * seconds
	a.n++
}

// timer is what a message of rows takes; false while too little is known.
func (a *access) timer() (t affine, known bool) {
	if a.n < accessLeast || a.mm == 0 {
		return t, false
	}
	// Where all messages have as many rows, both parts cannot be told apart: then
	// all is taken for rows, as before.
	det := a.mm*a.rr - a.mr*a.mr
	if det < 1e-3*a.mm*a.rr {
		return affine{row: a.rt / a.rr}, true
	}
	t = affine{message: (a.mt*a.rr - a.rt*a.mr) / det, row: (a.rt*a.mm - a.mt*a.mr) / det}
	switch {
	case t.message < 0:
		t = affine{row: a.rt / a.rr}
	case t.row < 0:
		t = affine{message: a.mt / a.mm}
	}
	return t, true
}

// affine is a time with a part for each access and one for each row.
type affine struct{ message, row float64 }

// Seconds implements cost.Timer.
func (a affine) Seconds(x cost.Access) float64 {
	if x.Rows <= 0 {
		return 0
	}
	return a.message + a.row*float64(x.Rows)
}

// timer is what accesses of a layer take: by the device's profile, or as hosts tell, or
// in proportion to rows while they have told little.
func (r *round) timer(w *work) cost.Timer {
	if r.c.s.Takes != nil {
		return r.c.s.Takes.Timer
	}
	if t, known := w.fits.timer(); known {
		return t
	}
	return cost.Printed{Alpha: r.row(w)}
}
