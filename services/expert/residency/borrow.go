package residency

import (
	"errors"
	"fmt"
	"time"
)

// Rows that come to a host by name may be of a function that it does not have: the
// hosts that have it have lost them. The host borrows the function then, if it has
// room: it loads and joins it as one that is wanted cold here, and lets go of it when
// nobody needs it, or when a newer plan says who has it.

// ErrDeclined begins the reasons for which other hosts are to compute rows.
var ErrDeclined = errors.New("this host does not have the function")

// named returns a function that is warm here, or that is to become so from now on.
func (t *table) named(layer int, id string) (f *Function, warm bool, err error) {
	switch f = t.functions[id]; {
	case f == nil:
		f, err = t.borrow(layer, id)
		return f, false, err
	case f.state.Phase == isWarm && !f.offloaded:
		return f, true, nil
	case f.offloaded: // rows may have to wait for experts
		return f, false, nil
	case f.want == nothing, f.state.Phase == isRefused:
		return nil, false, fmt.Errorf("%w: it is %s", ErrDeclined, f.phase())
	}
	t.rouse(f)
	return f, false, nil
}

// borrow wants a function of the layer's plan here that is planned elsewhere.
func (t *table) borrow(layer int, id string) (*Function, error) {
	spec := t.plans.function(layer, id)
	switch {
	case t.stopped || t.leaving:
		return nil, fmt.Errorf("%w: it is leaving", ErrDeclined)
	case spec == nil:
		return nil, fmt.Errorf("%w: the newest plan of layer %d has no function %.64q", ErrDeclined, layer, id)
	}
	f := newFunction(layer, spec, t.United, t.Metrics)
	if f.cannot != nil {
		return nil, fmt.Errorf("%w: %w", ErrDeclined, f.cannot)
	}
	f.offloaded = t.offloads(f)
	if need, room := t.needs(f, false); !f.offloaded && t.memory.bounded() && need > room {
		return nil, fmt.Errorf("%w: it takes %d bytes, and there is room for %d", ErrDeclined, need, room)
	}
	f.want, f.borrowed, f.unused = cold, true, time.Now()
	t.functions[id] = f
	t.rouse(f)
	t.kick(f)
	t.Logger.Info("a function is loaded whose own hosts lose rows", "function", id, "layer", layer)
	return f, nil
}

func (t *table) giveBack(f *Function) {
	if f.borrowed {
		t.retire(f, t.plans.newest[f.layer].Version)
	}
}
