package offload

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// look sends what the predictor says at the layer to the hosts.
func (e *engine) look() error {
	looks := e.f.At(e.step, e.layer)
	if len(looks) == 0 {
		return nil
	}
	delay, way := e.Delay, 0.0
	switch around := e.around(); {
	case e.layer < 0 && around.Lead.N > 0:
		delay = max(0, around.Before-around.Lead.Seconds)
	case e.layer < 0:
		delay, way = e.First, around.Hops
	case around.Lag.N > 0:
		delay = around.Lag.Seconds
	}
	if e.Rows && e.phase == &e.r.Prefill {
		delay *= float64(len(e.w.Steps[e.step].Rows))
	}
	a := arrival{e.now + delay + way, e.step, e.layer, looks}
	if !e.policy.Synchronous {
		e.send(a)
		return nil
	}
	if err := e.advance(a.at); err != nil {
		return err
	}
	e.arrive(a)
	return e.until(e.settled)
}

// send puts a prediction in the line of those that arrive.
func (e *engine) send(a arrival) {
	at := len(e.hints)
	for at > 0 && e.hints[at-1].at > a.at {
		at--
	}
	e.hints = slices.Insert(e.hints, at, a)
}

func (e *engine) arrive(a arrival) {
	for h := range e.hosts {
		e.hosts[h].hear(a)
	}
}

// settled reports whether all hints' loads have ended, and the layer's experts are there or wait for
// the room that others have.
func (e *engine) settled() bool {
	for h := range e.hosts {
		if one := &e.hosts[h]; one.outstanding() || !one.settled() {
			return false
		}
	}
	return true
}

// pass takes the step through a layer.
func (e *engine) pass(layer, rows int) error {
	around := e.around()
	if err := e.advance(e.now + e.reads(e.w.LayerBytes, rows) + around.Before); err != nil {
		return err
	}
	e.layer = layer
	began, ideal := e.now, e.ideal(layer)
	if e.policy.Whole {
		e.now += ideal + around.After
		e.count(layer)
		return nil
	}
	e.hold = e.policy.Synchronous
	for h := range e.hosts {
		e.hosts[h].dispatch(layer)
	}
	if err := e.look(); err != nil {
		return err
	}
	e.hold = false
	for h := range e.hosts {
		e.hosts[h].compute()
	}
	if err := e.until(func() bool { return e.pending == 0 }); err != nil {
		return err
	}
	e.phase.Stall += max(0, e.now-began-ideal)
	return e.advance(e.now + around.After)
}

// count counts a layer's demands as hits, where all is held.
func (e *engine) count(layer int) {
	for _, n := range e.w.Loads(e.step, layer) {
		if n > 0 {
			e.phase.Hits++
		}
	}
}

// ideal is what a layer's experts take if all are held.
func (e *engine) ideal(layer int) (most float64) {
	for h := range e.hosts {
		if units := e.hosts[h].asked(layer); len(units) > 0 {
			most = max(most, e.hosts[h].takes(units))
		}
	}
	return most
}

// asked are the units of a layer that have rows and are the host's.
func (h *host) asked(layer int) (units []int) {
	for x, n := range h.w.Loads(h.step, layer) {
		if i := layer*h.w.Experts + x; n > 0 && h.engine.at(i) == h.number {
			units = append(units, i)
		}
	}
	return units
}

// takes is what a host takes for the rows of units that are there, in one call.
func (h *host) takes(units []int) float64 {
	var all []cost.Access
	for _, i := range units {
		rows := h.w.Loads(h.step, i/h.w.Experts)[i%h.w.Experts]
		all = append(all, cost.Access{Bytes: h.w.ExpertBytes, Rows: int(rows)})
	}
	return h.Device.Compute(all...) + h.around().Held
}
