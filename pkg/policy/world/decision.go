package world

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Decision is what a policy wants. What it leaves out stays as it is.
type Decision struct {
	// Layers are where replicas are wanted, of the layers that are due.
	Layers []Placement
	// Directives are stamped on steps.
	Directives []Directive
	// Fetch are units to bring to hosts, and Evict units that may leave, the first first.
	Fetch, Evict []Rank
	// Transfers are how units get their rows.
	Transfers []Transfer
}

// Placement is where a layer's replicas are wanted.
type Placement struct {
	Layer    int       // its place in World.Layers
	Replicas []Replica // by unit, then host
	// Keep are the seconds for which a replica without rows stays beside others of its unit;
	// 0 is the policy's (registry.Policy.KeepAlive).
	Keep float64
	// Least are the seconds that one more copy has to save a step at this layer, by the policy.
	Least float64
}

// Replica is a unit, by its place in the layer, on a host, by its place in World.Hosts.
type Replica struct{ Unit, Host int }

// Directive is what holds for rows of a phase: the share of them that keep their own
// experts (BrownoutServe).
type Directive struct {
	Phase     Phase
	Threshold float64
}

// Rank is a unit's place in an order of a host.
type Rank struct {
	Unit  unit.Unit
	Host  int
	Score float64
}

// Transfer is how a unit gets its rows (the BO/ODS planner).
type Transfer struct {
	Unit      unit.Unit
	Mode      string
	Minibatch int // rows of one message; 0 is all of them
}

// Check refuses decisions that name what is not there, or that cannot be, so that no policy can
// harm who asks it.
func (d Decision) Check(w *World) error {
	if err := d.check(w); err != nil {
		return fmt.Errorf("the policy's decision: %w", err)
	}
	return nil
}

func (d Decision) check(w *World) error {
	for _, p := range d.Layers {
		if err := p.check(w); err != nil {
			return err
		}
	}
	for _, x := range d.Directives {
		if x.Phase > Decode || !(x.Threshold >= 0 && x.Threshold <= 1) {
			return fmt.Errorf("a threshold of %v for phase %d; thresholds are 0 to 1, phases 0 to %d", x.Threshold, x.Phase, Decode)
		}
	}
	for _, r := range slices.Concat(d.Fetch, d.Evict) {
		if err := r.check(w); err != nil {
			return err
		}
	}
	for _, x := range d.Transfers {
		if !w.has(x.Unit) || x.Minibatch < 0 {
			return fmt.Errorf("messages of %d rows for unit %v; the world must have the unit, and rows are 0 or above", x.Minibatch, x.Unit)
		}
	}
	return nil
}

func (p Placement) check(w *World) error {
	if err := w.layer(p.Layer); err != nil {
		return err
	}
	for _, r := range p.Replicas {
		if err := w.replica(p.Layer, r); err != nil {
			return err
		}
	}
	return number("the seconds for which replicas without rows stay", p.Keep)
}

func (r Rank) check(w *World) error {
	if !w.has(r.Unit) || r.Host < 0 || r.Host >= len(w.Hosts) || math.IsNaN(r.Score) {
		return fmt.Errorf("unit %v on host %d has score %v; the world must have the unit, there are %d hosts, and a score is a number", r.Unit, r.Host, r.Score, len(w.Hosts))
	}
	return nil
}

// has says whether a layer has a unit.
func (w *World) has(u unit.Unit) bool {
	return slices.ContainsFunc(w.Layers, func(l Layer) bool {
		return l.Number == u.Layer && slices.ContainsFunc(l.Units, func(o Unit) bool { return o.Unit == u })
	})
}
