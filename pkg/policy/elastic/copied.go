package elastic

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
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
			l[e] = slices.DeleteFunc(l[e], func(s spot) bool { return s.host == h })
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

// movable reports whether another host could take a row of a host, and be done sooner than that one is.
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

// fleet is the hosts while a plan is decided on. All experts take the same bytes,
// so that a host has slots: it holds so many experts of whatever layer.
type fleet struct {
	hosts []host // by their ids
	index map[string]int
	cool  []int // those that do not throttle
	// holders are those with slots.
	holders []int
	// refused are the refusals that are believed.
	refused map[refusal]float64
}

// host is one of them, named by its place in the fleet.
type host struct {
	id    string
	slots int
	// used are slots that experts need who are in the group, cold ones too: their
	// first rows must find room. Those of loaded replicas that are not used are not
	// among them: they give way.
	used int
	kept int
	// full says that it has refused something lately: it gets nothing more.
	full bool
	// throttles says that its device is slowed; see plan.Host.
	throttles bool
	// idle says that nothing was planned on it in any layer.
	idle bool
}

func (h *host) free() int {
	if h.full {
		return 0
	}
	return max(0, h.slots-h.used)
}

// noLimit is more slots than are ever used.
const noLimit = math.MaxInt32

func newFleet(all []plan.Host, expertBytes uint64) *fleet {
	f := &fleet{index: make(map[string]int, len(all))}
	for _, h := range all {
		slots := noLimit
		if h.Budget > 0 {
			slots = int(min(h.Budget/max(1, expertBytes), noLimit))
		}
		f.hosts = append(f.hosts, host{id: h.ID, slots: slots, throttles: h.Throttles, idle: true})
	}
	slices.SortFunc(f.hosts, func(a, b host) int { return cmp.Compare(a.id, b.id) })
	for i, h := range f.hosts {
		f.index[h.id] = i
		if h.slots > 0 {
			f.holders = append(f.holders, i)
		}
		if !h.throttles {
			f.cool = append(f.cool, i)
		}
	}
	return f
}

// spare is how many slots are left beside so many experts, and how many hosts
// can take any.
func (f *fleet) spare(experts int) (slots, able int) {
	total := int64(-experts)
	for i := range f.hosts {
		if h := &f.hosts[i]; h.full {
			total += int64(h.used)
		} else if h.slots > 0 {
			total += int64(h.slots)
			able++
		}
	}
	return int(max(0, total)), able
}

// refusal is a function that a host has refused for want of memory.
type refusal struct{ host, function string }

// refusedFor is for how many seconds a host that has refused a function gets no
// more than it has.
const refusedFor = 30

// Refused takes note that a host has no room for a function, whatever memory it
// says that it has.
func (c *Core) Refused(now float64, host, function string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[refusal{host, function}] = c.at(now)
}

// markFull marks the hosts that have refused something lately. If all have that have slots,
// nobody else can have what they refused: it stays where it is, and its rows wait or go to
// whoever borrows it.
func (f *fleet) markFull(refused map[refusal]float64, now float64) {
	f.refused = refused
	for r, when := range refused {
		if now-when > refusedFor {
			delete(refused, r)
		} else if h, here := f.index[r.host]; here {
			f.hosts[h].full = true
		}
	}
	if !slices.ContainsFunc(f.hosts, func(h host) bool { return h.slots > 0 && !h.full }) {
		f.refused = nil
		for i := range f.hosts {
			f.hosts[i].full = false
		}
	}
}

// In a large fleet each layer has a part of the hosts, as the static policy deals it
// (static.Deal): its replicas stay on these as long as they have room, so that the layer has
// few functions, and a host has some of few layers.

// deal is which of the hosts with slots a layer has, by its place among all layers.
func (r *round) deal(layer int) static.Deal {
	return static.DealOf(layer, len(r.k.Model.MoELayers), len(r.holders), r.k.Settings.Grouping)
}

// window are the hosts that a layer has; nil: all of them.
func (r *round) window(layer int) (hosts []int) {
	d := r.deal(layer)
	if d.Whole() {
		return nil
	}
	for i := range d.Hosts() {
		hosts = append(hosts, r.holders[d.Host(0, i)])
	}
	return hosts
}

// freeSlots are the slots of each host that nobody has; on some hosts, or all if there are
// none, and 0 on the others.
func (f *fleet) freeSlots(among []int) []int {
	slots := make([]int, len(f.hosts))
	if among == nil {
		for h := range slots {
			slots[h] = f.hosts[h].free()
		}
	}
	for _, h := range among {
		slots[h] = f.hosts[h].free()
	}
	return slots
}

// shareFate keeps experts awake that share a function with one that is: in a large fleet a
// function goes to zero whole, as each change of its experts makes another function of it.
func (w *work) shareFate() {
	if w.window == nil || w.in == nil {
		return
	}
	for _, f := range w.in.Functions {
		if f.Kind == plan.Routed && slices.ContainsFunc(f.Experts, func(e uint32) bool { return !w.idle[e] }) {
			for _, e := range f.Experts {
				w.idle[e] = false
			}
		}
	}
}

// moveWhole gives functions without a host another one each, which has nothing of the layer: in
// a large fleet no other function changes then. It is the host with least planned on it.
func (r *round) moveWhole(w *work) {
	if w.window == nil || w.in == nil {
		return
	}
	for _, f := range w.in.Functions {
		if f.Kind != plan.Routed || slices.ContainsFunc(f.Experts, func(e uint32) bool { return len(w.next[e]) > 0 }) {
			continue
		}
		to := r.strange(w.next, len(f.Experts))
		if to < 0 {
			return
		}
		for _, e := range f.Experts {
			want := warm
			if w.idle[e] {
				want = cold
			}
			w.next.set(int(e), want, to)
			r.hosts[to].used++
			w.why.count(byMissing, 1)
		}
	}
}

// strange is the host with so many slots that has nothing of a layer, and least planned on it;
// -1 if there is none.
func (f *fleet) strange(l layout, slots int) (best int) {
	has := make([]bool, len(f.hosts))
	for _, spots := range l {
		for _, s := range spots {
			has[s.host] = true
		}
	}
	best = -1
	for h := range f.hosts {
		if !has[h] && f.hosts[h].free() >= slots && (best < 0 || f.hosts[h].used < f.hosts[best].used) {
			best = h
		}
	}
	return best
}
