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
	// copyAhead is how many copies are tried that save that together only: steps wait for several
	// hosts in turn, and while one is relieved another is as busy.
	copyAhead = 4
)

// copied adds copies to a layout that a policy has answered with, one after the other, while
// the next ones save what replicas are worth, and what the policy asks of each.
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
	best, seconds := l.clone(), now.seconds
	for ahead := 1; ahead <= copyAhead && left > 0 && extra(l.counts()) < a.spare; ahead++ {
		left -= copyTried * copyTried
		next, found := r.copy(w, l, steps, slots, now)
		if !found {
			break
		}
		if now = next; seconds-now.seconds >= float64(ahead)*max(least, copyLeast*seconds) {
			best, seconds, ahead = l.clone(), now.seconds, 0
		}
	}
	return best
}

// copy adds to a layout the copy with which the steps take least; false if no host has room for one.
func (r *round) copy(w *work, l layout, steps []step, slots []int, now tally) (best tally, found bool) {
	expert, host := 0, 0
	for _, e := range now.blamed(l) {
		for _, h := range now.idle(l, e, slots) {
			l.put(e, h, warm)
			if then := r.tally(w, l, steps); !found || then.seconds < best.seconds {
				best, expert, host, found = then, e, h, true
			}
			l.remove(e, h)
		}
	}
	if found {
		l.put(expert, host, warm)
		slots[host]--
	}
	return best, found
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
		for h, b := range busy {
			t.busy[h] += b
		}
		last := p.last(busy)
		for _, h := range last {
			t.waited[h] += took / float64(len(last))
		}
		for _, x := range p.shares {
			if slices.Contains(last, x.Host) {
				t.blame(x.Host, p, s, x)
			}
		}
	}
	return t
}

// last are the hosts that a step waits for: the busiest ones, of which there may be several, without those that
// another host could take a row off. Rows are divided no more evenly than the step ends sooner.
func (p *replayer) last(busy []float64) (hosts []int) {
	p.hostRows = append(p.hostRows[:0], make([]int, len(busy))...)
	for _, x := range p.shares {
		p.hostRows[x.Host] += x.Rows
	}
	most, first := slices.Max(busy), 0
	for h, b := range busy {
		switch {
		case b < most:
		case p.movable(busy, h):
			first = h
		default:
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		hosts = append(hosts, first)
	}
	return hosts
}

// movable says whether another host could take a row of a host, and be done sooner than that one is.
func (p *replayer) movable(busy []float64, host int) bool {
	row := busy[host] / float64(max(1, p.hostRows[host]))
	return slices.ContainsFunc(p.shares, func(x divide.Share) bool {
		return x.Host == host && slices.ContainsFunc(p.on[p.functions[x.Expert]], func(o int) bool { return busy[o]+row < busy[host] })
	})
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
