package elastic

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Policies that decide on replicas and their hosts at once are asked about a world that is
// made of samples and members. What they want is weighed as any other change is.

// worlds are those of a round that nobody uses now: one is for one decision at a time.
type worlds struct {
	mu   sync.Mutex
	free []*world.World
}

// seen is a world of this round; nil where it cannot be. Whoever has used it frees it.
func (r *round) seen() *world.World {
	r.worlds.mu.Lock()
	defer r.worlds.mu.Unlock()
	if last := len(r.worlds.free) - 1; last >= 0 {
		v := r.worlds.free[last]
		r.worlds.free = r.worlds.free[:last]
		return v
	}
	return r.newWorld()
}

func (r *round) free(v *world.World) {
	r.worlds.mu.Lock()
	defer r.worlds.mu.Unlock()
	r.worlds.free = append(r.worlds.free, v)
}

func (r *round) newWorld() *world.World {
	var layers []world.Layer
	for _, w := range r.layers {
		l := world.Layer{Number: w.number}
		for e := range r.c.model.Experts {
			l.Units = append(l.Units, world.Unit{Unit: unit.Expert(w.number, e), Bytes: r.bytes()})
		}
		layers = append(layers, l)
	}
	v, err := world.New(layers...)
	if err != nil {
		return nil
	}
	v.CV = r.c.s.CV
	v.Waiting, v.Queued = r.waiting, r.queued
	if v.Observe(world.Clock(r.now)) != nil || v.Observe(r.members()) != nil {
		return nil
	}
	return v
}

func (r *round) bytes() uint64 { return max(1, r.k.Model.ExpertBytes) }

// members are the hosts; one without slots is as good as gone.
func (r *round) members() (all world.Members) {
	for _, h := range r.hosts {
		one := world.Host{ID: h.id, Tiers: []world.Tier{{Link: cost.Link{Latency: r.loading}}}}
		switch {
		case h.slots == 0:
			one.Health = world.Gone
		case h.full:
			one.Health = world.Full
		case h.throttles:
			one.Health = world.Throttles
		}
		all = append(all, one)
	}
	return all
}

// ask is what a policy is asked: where a layer's experts are to be, beside what there is of
// them or anew.
type ask struct {
	from  layout // what there is
	want  []int  // experts that are to have none stay where they are
	loads []float64
	spare int // replicas beyond each expert's first that there may be
	reuse bool
}

func (a *ask) stays(e int) bool { return a.from.count(e, cold) > 0 || a.want[e] == 0 }

// held is what the policy is told that hosts hold.
func (a *ask) held() (held []world.Held) {
	for e, spots := range a.from {
		for _, s := range spots {
			if s.want != kept && (a.reuse || a.stays(e)) {
				held = append(held, world.Held{Unit: e, Host: s.host})
			}
		}
	}
	return held
}

// rows are those of a step.
func (a *ask) rows(perStep float64) []float64 {
	rows := make([]float64, len(a.from))
	for e := range rows {
		if !a.stays(e) && a.loads != nil {
			rows[e] = a.loads[e] / perStep
		}
	}
	return rows
}

// decided is where the policy wants a layer's experts; nil if it has no answer that can be.
// What it wants anew is asked for once a round.
func (r *round) decided(w *work, a ask) layout {
	known := len(a.loads) > 0 && len(w.loads) > 0 && &a.loads[0] == &w.loads[0]
	if !a.reuse && known && w.anew != nil && a.spare >= extra(w.anew.counts()) {
		return r.carried(w.anew, a)
	}
	v := r.seen()
	if v == nil {
		return nil
	}
	defer r.free(v)
	at := slices.IndexFunc(v.Layers, func(l world.Layer) bool { return l.Number == w.number })
	v.Takes, v.Due = r.takes(w, r.message), []int{at}
	l := r.ask(v, w, a, r.layerRoom(a.from, w.window))
	if l == nil && w.window != nil {
		l = r.ask(v, w, a, r.layerRoom(a.from, nil))
	}
	if l == nil {
		return nil
	}
	if known {
		l = r.copied(w, l, a)
	}
	if !a.reuse && known {
		w.anew = l
	}
	return r.carried(l, a)
}

// ask asks the policy about a layer with so much room on hosts; nil if there is no answer.
func (r *round) ask(v *world.World, w *work, a ask, room []uint64) layout {
	at := v.Due[0]
	for _, event := range []world.Event{
		world.Room{Layer: at, Bytes: room, Spare: a.spare}, world.Holds{Layer: at, Held: a.held()},
		world.Rows{Layer: at, Demand: world.Demand{Source: world.Counted, Rows: a.rows(w.perStep())}},
	} {
		if v.Observe(event) != nil {
			return nil
		}
	}
	d, err := r.c.mode.whole(v)
	if err != nil || d.Check(v) != nil {
		return nil
	}
	l := make(layout, len(a.from))
	for _, p := range d.Layers {
		if p.Layer == at {
			w.copiesStay, w.copySaves = p.Keep, p.Least
		}
		for _, x := range p.Replicas {
			if p.Layer == at {
				l.put(x.Unit, x.Host, warm)
			}
		}
	}
	return l
}

// carried is what a policy wants, with the experts that it was not asked about where they
// are; nil if one of the others has no host in it, or hosts have no room.
func (r *round) carried(want layout, a ask) layout {
	l := want.clone()
	for e := range l {
		if a.stays(e) {
			l[e] = slices.Clone(a.from[e])
		} else if len(l[e]) == 0 {
			return nil
		}
	}
	if !r.fits(l, a.from) {
		return nil
	}
	return l
}

// counts are the warm replicas of each expert.
func (l layout) counts() []int {
	n := make([]int, len(l))
	for e := range l {
		n[e] = l.count(e, warm)
	}
	return n
}

// fits reports whether hosts have room for a layout in place of another one.
func (r *round) fits(l, from layout) bool {
	own := make([]int, len(r.hosts))
	for times, of := range map[int]layout{1: from, -1: l} {
		for _, spots := range of {
			for _, s := range spots {
				if s.want != kept {
					own[s.host] += times
				}
			}
		}
	}
	for h := range own {
		if own[h] < 0 && -own[h] > r.hosts[h].free() {
			return false
		}
	}
	return true
}

// layerSlots are how many experts a layer may have on each host: those that it has, and on
// some hosts, or all, as many as are free.
func (r *round) layerSlots(from layout, among []int) []int {
	slots := r.freeSlots(among)
	for _, spots := range from {
		for _, s := range spots {
			if s.want != kept {
				slots[s.host]++
			}
		}
	}
	return slots
}

// layerRoom are the bytes of these.
func (r *round) layerRoom(from layout, among []int) []uint64 {
	slots := r.layerSlots(from, among)
	bytes := make([]uint64, len(slots))
	for h, n := range slots {
		bytes[h] = uint64(min(n, r.c.model.Experts)) * r.bytes()
	}
	return bytes
}

// perStep is by what rows of a second are divided to be those of a step.
func (w *work) perStep() float64 { return cmp.Or(w.rate, 1) }

// takes is what an access takes, and a message beside it: by the device's profile, or by
// the time of rows as hosts tell it, in which reading an expert's weights costs nothing.
func (r *round) takes(w *work, message float64) cost.Device {
	d := cost.Device{Timer: r.timer(w)}
	if r.c.s.Takes != nil {
		d = *r.c.s.Takes
	}
	d.Timer = cost.Sent{Timer: d.Timer, Messages: cost.Messages{Each: message}}
	return d
}

// busiest are the seconds in a second that the busiest host computes a layer, as gates
// divide the rows of a step.
func (r *round) busiest(w *work, l layout) float64 {
	if r.division() != nil {
		return r.divided(w, l)
	}
	takes, steps := r.takes(w, 0), w.perStep()
	busy := make([]float64, len(r.hosts))
	for e, load := range w.loads {
		n := float64(max(1, l.count(e, warm)))
		// An expert with fewer rows than steps has one in some of them.
		rows := max(1, load/steps/n)
		seconds := takes.Seconds(cost.Access{Bytes: float64(r.bytes()), Rows: int(math.Round(rows))})
		for _, s := range l[e] {
			if s.want == warm {
				busy[s.host] += seconds * load / n / rows
			}
		}
	}
	return slices.Max(append(busy, 0))
}
