package world

import (
	"fmt"

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
	// 0 is the policy's.
	Keep float64
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

// Check refuses decisions that name what is not there, so that no policy can harm who asks it.
func (d Decision) Check(w *World) error {
	for _, p := range d.Layers {
		if err := p.check(w); err != nil {
			return fmt.Errorf("the policy's decision: %w", err)
		}
	}
	for _, x := range d.Directives {
		if !(x.Threshold >= 0 && x.Threshold <= 1) {
			return fmt.Errorf("the policy's decision: a threshold of %v; it must be 0 to 1", x.Threshold)
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
	return nil
}
