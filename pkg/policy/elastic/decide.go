package elastic

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
	"github.com/switchyard/switchyard/pkg/policy/world"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// round is one decision on all layers.
type round struct {
	*fleet
	c      *Core
	now    float64
	k      plan.Known
	layers []*work
	able   int // hosts that can take a replica
	// world is what policies see that decide at once.
	world *world.World
}

// work is a layer while it is decided on.
type work struct {
	number int
	*layer
	in    *plan.Layer // in force; nil: none
	loads []float64   // rows in a second; nil: nobody has told
	last  []step      // the last steps, when somebody has asked for them
	scale float64     // of their rows
	idle  []bool      // experts that are to be at zero
	need  []int       // replicas by load
	stay  []int       // replicas of what there is, without those to be retired
	want  []int       // what is better, if it is worth it
	asks  int         // how many more than stay would be better
	old   layout      // in force, as far as it can be used
	next  layout
	anew  layout // what a policy wants that decides at once, whatever there is
	why   causes
	// relieved are the hosts of experts that relieve others, in force. They are not in old
	// until relief is decided on.
	relieved map[int]int
}

// Decide says what the plan is to be now. Layers that stay come as they are. An
// error leaves the plan in force as it is: the hosts do not hold the model.
func (c *Core) Decide(now float64, k plan.Known) (*plan.Decision, []Verdict, error) {
	now = c.at(now)
	c.outcomes()
	if c.mode.static() || len(k.InForce) == 0 {
		return c.round(now, k).static()
	}
	for _, tight := range []bool{false, true} {
		r := c.round(now, k)
		r.trim()
		r.scale(tight)
		if !r.mend() {
			continue
		}
		for _, w := range r.layers {
			r.improve(w)
		}
		for _, w := range r.layers {
			r.relieve(w)
		}
		r.keep()
		r.settleTrials()
		return r.decision()
	}
	return c.round(now, k).static()
}

// round looks at what there is.
func (c *Core) round(now float64, k plan.Known) *round {
	r := &round{fleet: newFleet(k.Hosts, k.Model.ExpertBytes), c: c, now: now, k: k}
	r.markFull(c.refused, now)
	c.hosts = make(map[string]bool, len(k.Hosts))
	for _, h := range k.Hosts {
		c.hosts[h.ID] = true
	}
	for _, number := range k.Model.MoELayers {
		w := &work{number: number, layer: c.layers[number], in: k.InForce[number]}
		var gone, refused int
		w.old, gone, refused = r.read(w.in)
		w.why.count(byHost, gone)
		w.why.count(byRefusal, refused)
		r.follow(w, w.old)
		w.inherit(now, func(e int) bool { return len(w.old[e]) > 0 && w.old.count(e, cold) == len(w.old[e]) })
		r.leaveOutRelief(w)
		w.loads = w.layer.loads(now, c.mode)
		w.idle = r.atZero(w)
		r.occupy(w.old)
		r.layers = append(r.layers, w)
	}
	return r
}

// occupy enters what is planned on the hosts.
func (r *round) occupy(l layout) {
	r.use(l, 1)
	for _, spots := range l {
		for _, s := range spots {
			r.hosts[s.host].idle = false
		}
	}
}

// atZero are the experts that have had no rows for the time of keep-alive.
func (r *round) atZero(w *work) []bool {
	idle, stays := make([]bool, len(w.seen)), r.c.stays(w.number)
	for e, seen := range w.seen {
		idle[e] = r.c.mode.toZero && r.now-seen > stays
	}
	return idle
}

// static leaves everything to the static policy: the first plan, and one that
// begins anew where no change of the old one fits on the hosts.
func (r *round) static() (*plan.Decision, []Verdict, error) {
	k := r.k
	if !r.c.mode.static() { // the next decision relieves hosts
		k.Settings.Replicas = 1
		k.Hosts = slices.Clone(k.Hosts)
		for i := range k.Hosts {
			k.Hosts[i].Throttles = false
		}
	}
	d, err := static.Plan(k)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", r.c.mode.name, err)
	}
	var verdicts []Verdict
	for i, w := range r.layers {
		lp := d.Layers[i]
		w.next, _, _ = r.read(&plan.Layer{LayerPlan: lp})
		changed := w.in == nil || !plan.Same(w.in.LayerPlan, lp)
		if w.why = (causes{}); changed {
			w.why.count(byStatic, 1)
		}
		verdicts = append(verdicts, r.verdict(w, changed))
	}
	return d, verdicts, nil
}

// decision is the plan that has been decided on.
func (r *round) decision() (*plan.Decision, []Verdict, error) {
	d, verdicts := &plan.Decision{}, make([]Verdict, 0, len(r.layers))
	for _, w := range r.freeingFirst() {
		lp := &pb.LayerPlan{Layer: uint32(w.number), Functions: r.functions(w.number, w.next), Division: r.division(), Policy: r.c.mode.name}
		changed := w.in == nil || !plan.Same(w.in.LayerPlan, lp)
		if v := r.verdict(w, changed); changed {
			lp.Reason = r.c.mode.name + ": " + v.Reason
			verdicts = append(verdicts, v)
		} else {
			lp = w.in.LayerPlan
			verdicts = append(verdicts, v)
		}
		d.Layers = append(d.Layers, lp)
	}
	return d, verdicts, nil
}

// freeingFirst are the layers in the order in which they are written: what one takes
// of a host's memory, others leave before.
func (r *round) freeingFirst() []*work {
	return slices.SortedStableFunc(slices.Values(r.layers), func(a, b *work) int { return a.grows() - b.grows() })
}

// grows is how many more placements a layer has than before.
func (w *work) grows() int { return placements(w.next) - placements(w.old) }
