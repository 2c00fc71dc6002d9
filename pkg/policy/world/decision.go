package world

import "fmt"

// Decision is what a policy wants. What it leaves out stays as it is.
type Decision struct {
	// Layers are where replicas are wanted, of the layers that are due.
	Layers []Placement
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

// Check refuses decisions that name what is not there, or that cannot be, so that no policy can
// harm who asks it.
func (d Decision) Check(w *World) error {
	for _, p := range d.Layers {
		if err := p.check(w); err != nil {
			return fmt.Errorf("the policy's decision: %w", err)
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
