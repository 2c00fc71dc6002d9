package elastic

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/switchyard/switchyard/internal/parallel"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
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
	worlds worlds
	// message is what one message more takes, and loading what a load does, in seconds.
	message, loading float64
	// waiting are requests without a row in any step, and queued is in which part of the time
	// there was one of late.
	waiting, queued float64
}

// work is a layer while it is decided on.
type work struct {
	number int
	*layer
	in *plan.Layer // in force; nil: none
	// window are the hosts that the layer is dealt to; nil: all.
	window []int
	heard         // until the round began
	idle   []bool // experts that are to be at zero
	need   []int  // replicas by load
	stay   []int  // replicas of what there is, without those to be retired
	want   []int  // what is better, if it is worth it
	asks   int    // how many more than stay would be better
	old    layout // in force, as far as it can be used
	next   layout
	anew   layout // what a policy wants that decides at once, whatever there is
	// trusted says that what a change is reckoned to save counts.
	trusted bool
	found   found // what a layer gains by, as long as others stay
	why     causes
	// relieved are the hosts of experts that relieve others, in force. They are not in old
	// until relief is decided on.
	relieved map[int]int
	// plan and verdict are what has been decided.
	plan    *pb.LayerPlan
	verdict Verdict
}

// Decide says what the plan is to be now. Layers that stay come as they are. An
// error leaves the plan in force as it is: the hosts do not hold the model.
func (c *Core) Decide(now float64, k plan.Known) (*plan.Decision, []Verdict, error) {
	now = c.outcomes(now)
	c.timeMessages(now, k)
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
		for block := range slices.Chunk(r.layers, sideBySide) {
			r.improveBlock(block)
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
	c.listen(r)
	for at, number := range k.Model.MoELayers {
		r.layers = append(r.layers, &work{number: number, layer: c.layers[number], in: k.InForce[number], window: r.window(at)})
	}
	r.each(r.layers, func(w *work) {
		var gone, refused int
		w.old, gone, refused = r.read(w.in)
		w.why.count(byHost, gone)
		w.why.count(byRefusal, refused)
		c.hear(r, w)
		r.leaveOutRelief(w)
	})
	for _, w := range r.layers {
		r.occupy(w.old)
	}
	return r
}

func (r *round) each(layers []*work, do func(*work)) {
	parallel.Each(runtime.GOMAXPROCS(0), 0, len(layers), func(i int) { do(layers[i]) })
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
	r.each(r.layers, r.spell)
	for _, w := range r.freeingFirst() {
		d.Layers, verdicts = append(d.Layers, w.plan), append(verdicts, w.verdict)
	}
	return d, verdicts, nil
}

// spell writes a layer's plan, which is the one in force where nothing changes.
func (r *round) spell(w *work) {
	w.plan = &pb.LayerPlan{Layer: uint32(w.number), Functions: r.functions(w.number, w.next), Division: r.division(), Policy: r.c.mode.name}
	changed := w.in == nil || !plan.Same(w.in.LayerPlan, w.plan)
	if w.in != nil && dividesElse(w.in.Division, w.plan.Division) {
		w.why.count(byDivision, 1)
		w.why.message = r.c.perMessage.seconds
	}
	if w.verdict = r.verdict(w, changed); changed {
		w.plan.Reason = r.c.mode.name + ": " + w.verdict.Reason
	} else {
		w.plan = w.in.LayerPlan
	}
}

// freeingFirst are the layers in the order in which they are written: what one takes
// of a host's memory, others leave before.
func (r *round) freeingFirst() []*work {
	return slices.SortedStableFunc(slices.Values(r.layers), func(a, b *work) int { return a.grows() - b.grows() })
}

func (w *work) grows() int { return placements(w.next) - placements(w.old) }
