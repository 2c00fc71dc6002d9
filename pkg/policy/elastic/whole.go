package elastic

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/unit"
	"github.com/switchyard/switchyard/pkg/policy/world"
)

// Policies that decide on replicas and their hosts at once are asked about a world that is
// made of samples and members. What they want is weighed as any other change is.

// seen is the world of a round; nil where it cannot be.
func (r *round) seen() *world.World {
	if r.world != nil {
		return r.world
	}
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
	if v.Observe(world.Clock(r.now)) != nil || v.Observe(r.members()) != nil {
		return nil
	}
	r.world = v
	return v
}

// bytes are an expert's.
func (r *round) bytes() uint64 { return max(1, r.k.Model.ExpertBytes) }

// members are the hosts; one without slots is as good as gone.
func (r *round) members() (all world.Members) {
	for _, h := range r.hosts {
		one := world.Host{ID: h.id, Tiers: []world.Tier{{Link: cost.Link{Latency: r.c.loading.or(r.c.s.LoadSeconds)}}}}
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

// stays says whether an expert is not asked about.
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
	at := slices.IndexFunc(v.Layers, func(l world.Layer) bool { return l.Number == w.number })
	v.Takes, v.Due = r.takes(w, r.c.messageSeconds()), []int{at}
	for _, event := range []world.Event{
		world.Room{Layer: at, Bytes: r.layerRoom(a.from), Spare: a.spare}, world.Holds{Layer: at, Held: a.held()},
		world.Rows{Layer: at, Demand: world.Demand{Source: world.Counted, Rows: a.rows(w.perStep(r.now))}},
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
		for _, x := range p.Replicas {
			if p.Layer == at {
				l.put(x.Unit, x.Host, warm)
			}
		}
	}
	if !a.reuse && known {
		w.anew = l
	}
	return r.carried(l, a)
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

// fits says whether hosts have room for a layout in place of another one.
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

// layerRoom are the bytes that a layer may take on each host: those that it has, and those
// that nobody has.
func (r *round) layerRoom(from layout) []uint64 {
	slots := make([]int, len(r.hosts))
	for h := range slots {
		slots[h] = r.hosts[h].free()
	}
	for _, spots := range from {
		for _, s := range spots {
			if s.want != kept {
				slots[s.host]++
			}
		}
	}
	bytes := make([]uint64, len(slots))
	for h, n := range slots {
		bytes[h] = uint64(min(n, r.c.model.Experts)) * r.bytes()
	}
	return bytes
}

// perStep is by what rows of a second are divided to be those of a step.
func (w *work) perStep(now float64) float64 { return cmp.Or(w.stepRate(now), 1) }

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
	takes, steps := r.takes(w, 0), w.perStep(r.now)
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
