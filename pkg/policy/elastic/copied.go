package elastic

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
)

// Policies decide by the mean rows of a step. Steps differ: the host that is busiest in one
// is not in the next, so that a layer takes longer than its busiest host does in the mean.
// Where gates divide rows, copies of experts even that out, too; which ones do is tried on
// the last steps themselves.

const (
	// copyTried is how many experts of the host that layers wait for longest are tried on as
	// many of the idlest hosts.
	copyTried = 2
	// copyWork bounds the experts of steps that are divided for one layer's decision.
	copyWork = 1 << 15
	// copySteps is how many of the last steps at most.
	copySteps = 32
	// copyLeast is the part of a layer's time that a copy has to save.
	copyLeast = 0.01
)

// copied adds copies to a layout that a policy has answered with, one after the other, while
// the next one saves what a replica is worth, and what the policy asks of each.
func (r *round) copied(w *work, l layout, a ask) layout {
	if r.division() == nil || len(w.last) == 0 || w.rate == 0 {
		return l
	}
	least := max(r.copySaves(w), r.worth()/w.rate)
	steps := every2nd(w.last, 1)
	if n := min(copySteps, max(replayLeast, replayWork/len(l))); len(steps) > n {
		steps = steps[:n]
	}
	left := copyWork / (len(steps) * len(l))
	slots := r.layerSlots(a.from, w.window)
	for _, spots := range l {
		for _, s := range spots {
			slots[s.host]--
		}
	}
	now := r.tally(w, l, steps)
	for ; left > 0 && extra(l.counts()) < a.spare; left -= copyTried * copyTried {
		best, expert, host := now, -1, -1
		for _, e := range now.blamed(l) {
			for _, h := range now.idle(l, e, slots) {
				l.put(e, h, warm)
				if then := r.tally(w, l, steps); then.seconds < best.seconds {
					best, expert, host = then, e, h
				}
				l.remove(e, h)
			}
		}
		saved := now.seconds - best.seconds
		if expert < 0 || saved < max(least, copyLeast*now.seconds) {
			break
		}
		l.put(expert, host, warm)
		slots[host]--
		now = best
	}
	return l
}

// copySaves are the seconds that the policy asks of a copy in each step. It reckons with a copy
// that stays as long as it says; here none goes before the horizon, and has more steps to save
// its load in.
func (r *round) copySaves(w *work) float64 {
	if w.copiesStay <= 0 || w.copiesStay >= r.c.s.Horizon {
		return w.copySaves
	}
	return w.copySaves * w.copiesStay / r.c.s.Horizon
}

// tally is what the last steps take under a layout.
type tally struct {
	seconds float64       // the mean
	busy    []float64     // of each host, of all steps
	waited  []float64     // that steps wait for each host
	rows    []map[int]int // of the experts on each host, in steps that wait for it
}

func (r *round) tally(w *work, l layout, steps []step) tally {
	p := r.replayer(w, l, 0)
	t := tally{busy: make([]float64, len(r.hosts)), waited: make([]float64, len(r.hosts)), rows: make([]map[int]int, len(r.hosts))}
	for i, s := range steps {
		took, _ := p.step(i, s)
		t.seconds += took / float64(len(steps))
		busy := p.divider.Busy()
		last := 0
		for h, b := range busy {
			t.busy[h] += b
			if b > busy[last] {
				last = h
			}
		}
		t.waited[last] += took
		for _, x := range p.shares {
			if x.Host == last {
				t.blame(last, p, s, x)
			}
		}
	}
	return t
}

// blame counts a share of a function's rows for its experts that have rows in the step. None
// has more of them on the host than the share has.
func (t *tally) blame(host int, p *replayer, s step, x divide.Share) {
	if t.rows[host] == nil {
		t.rows[host] = map[int]int{}
	}
	for i, e := range s.expert {
		if int(e) < len(p.set) && p.set[e] == p.functions[x.Expert] {
			t.rows[host][int(e)] += min(x.Rows, int(s.count[i]))
		}
	}
}

// blamed are the experts with most rows on the host that steps wait for longest.
func (t *tally) blamed(l layout) []int {
	host := 0
	for h, s := range t.waited {
		if s > t.waited[host] {
			host = h
		}
	}
	var all []int
	for e := range l {
		if t.rows[host][e] > 0 {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return t.rows[host][b] - t.rows[host][a] })
	return all[:min(copyTried, len(all))]
}

// idle are the least busy hosts with room that have nothing of an expert.
func (t *tally) idle(l layout, e int, slots []int) (hosts []int) {
	for h := range slots {
		if slots[h] > 0 && l.on(e, h) == 0 {
			hosts = append(hosts, h)
		}
	}
	slices.SortStableFunc(hosts, func(a, b int) int { return cmp.Compare(t.busy[a], t.busy[b]) })
	return hosts[:min(copyTried, len(hosts))]
}

func (l layout) remove(expert, host int) {
	l[expert] = slices.DeleteFunc(l[expert], func(s spot) bool { return s.host == host })
}
