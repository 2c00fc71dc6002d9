package world

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrEvent says that an event cannot be, and has changed nothing.
var ErrEvent = errors.New("an event that cannot be")

// Event is something that has happened or become known: Clock, Backlog, Members, Fares, Room, Rows
// or Holds.
type Event interface {
	// check says what is wrong with it in a world, and apply folds it in.
	check(*World) error
	apply(*World)
}

// New is a world of layers, in ascending order, of which nothing else is known.
func New(layers ...Layer) (*World, error) {
	for i, l := range layers {
		switch {
		case l.Number < 0 || i > 0 && l.Number <= layers[i-1].Number:
			return nil, fmt.Errorf("%w: layer %d is behind another one; layers must ascend from 0", ErrEvent, l.Number)
		case len(l.Units) == 0:
			return nil, fmt.Errorf("%w: layer %d has no units; it takes one at least", ErrEvent, l.Number)
		}
		for _, u := range l.Units {
			if err := u.Kind.Check(); err != nil {
				return nil, fmt.Errorf("%w: unit %v: %w", ErrEvent, u.Unit, err)
			}
			if u.Layer != l.Number {
				return nil, fmt.Errorf("%w: unit %v is in layer %d; name it there alone", ErrEvent, u.Unit, l.Number)
			}
		}
	}
	return &World{Layers: layers}, nil
}

// Observe folds an event in. One that cannot be changes nothing.
func (w *World) Observe(e Event) error {
	if err := e.check(w); err != nil {
		return fmt.Errorf("%w: %w", ErrEvent, err)
	}
	e.apply(w)
	return nil
}

// Clock is the time. One that goes back stands still, as nobody's clock has to be right.
type Clock float64

func (c Clock) check(*World) error { return number("the time", float64(c)) }
func (c Clock) apply(w *World)     { w.Now = max(w.Now, float64(c)) }

// Backlog is how many requests have come and have no row in any step yet, now or as a step
// begins: those that wait for a seat, and those that have one and of whose prompts no step has
// had a part. One whose prompt is computed waits no more, however long its prompt takes. Where
// steps are replayed as they were recorded, it is how many are due and have not begun.
type Backlog float64

// spans are the seconds of the means of whether requests wait, in which what is older by as
// much counts 1/e, and weights what each counts in World.Queued: the long one tells loads from
// each other, and the short one feels a burst at once. Of both, the part unhurried of the
// weight is known from the begin on: nobody waited before.
var (
	spans   = [...]float64{1, 20}
	weights = [...]float64{0.2, 1}
)

const unhurried = 0.05

func (b Backlog) check(*World) error { return number("the requests that wait", float64(b)) }

func (b Backlog) apply(w *World) {
	w.Queued = 0
	for i, span := range spans {
		old := math.Exp(-(w.Now - w.told) / span)
		w.means[i].add(min(1, w.Waiting), old)
		w.Queued = max(w.Queued, weights[i]*w.means[i].value)
	}
	w.Waiting, w.told = float64(b), w.Now
}

// mean is a mean over time, and which part of its weight is known.
type mean struct{ value, known float64 }

// add takes in what has been since, where what was before counts so much less.
func (m *mean) add(v, old float64) {
	m.known = 1 - old*(1-max(m.known, unhurried))
	m.value += (v - m.value) * (1 - old) / m.known
}

// Members are the hosts there are, by ascending ids. What was known by their places in the
// list before is forgotten.
type Members []Host

func (m Members) check(w *World) error {
	for i, h := range m {
		switch {
		case h.ID == "" || i > 0 && h.ID <= m[i-1].ID:
			return fmt.Errorf("host %q is behind another one; ids must be there once, and ascend", h.ID)
		case len(h.Tiers) == 0:
			return fmt.Errorf("host %s has no tier; it takes one at least", h.ID)
		case h.Health > Gone:
			return fmt.Errorf("host %s has health %d, which is none", h.ID, h.Health)
		}
		for at, t := range h.Tiers {
			if err := t.Check(); err != nil {
				return fmt.Errorf("tier %d of host %s: %w", at, h.ID, err)
			}
		}
	}
	return m.checkBudgets(w)
}

// checkBudgets refuses hosts that cannot hold each of the units.
func (m Members) checkBudgets(w *World) error {
	most, of := uint64(0), 0
	for i := range w.Layers {
		if b := w.Layers[i].Largest(); b > most {
			most, of = b, w.Layers[i].Number
		}
	}
	for _, h := range m {
		if b := h.Tiers[0].Bytes; b > 0 && b < most {
			return fmt.Errorf("host %s may hold %d bytes, and the largest unit, of layer %d, takes %d; give the host more memory, or leave it out", h.ID, b, of, most)
		}
	}
	return nil
}

func (m Members) apply(w *World) {
	w.Hosts, w.index = slices.Clone(m), make(map[string]int, len(m))
	for i, h := range m {
		w.index[h.ID] = i
	}
	for i := range w.Layers {
		w.Layers[i].Held, w.Layers[i].Room = nil, nil
	}
}

// Fares is how a host, by its place, is from now on.
type Fares struct {
	Host int
	Health
}

func (f Fares) check(w *World) error {
	if f.Host < 0 || f.Host >= len(w.Hosts) || f.Health > Gone {
		return fmt.Errorf("host %d of %d has health %d", f.Host, len(w.Hosts), f.Health)
	}
	return nil
}

func (f Fares) apply(w *World) { w.Hosts[f.Host].Health = f.Health }

// Room is what a layer, by its place, may take.
type Room struct {
	Layer int
	Bytes []uint64 // of each host
	Spare int      // replicas beyond each unit's first
}

func (r Room) check(w *World) error {
	switch err := w.layer(r.Layer); {
	case err != nil:
		return err
	case len(r.Bytes) != len(w.Hosts):
		return fmt.Errorf("layer %d has room on %d hosts, and there are %d", w.Layers[r.Layer].Number, len(r.Bytes), len(w.Hosts))
	}
	return nil
}

func (r Room) apply(w *World) {
	w.Layers[r.Layer].Room, w.Layers[r.Layer].Spare = r.Bytes, max(0, r.Spare)
}

// Rows is the demand of a layer, by its place. It takes that of the same source
// away that was known before.
type Rows struct {
	Layer int
	Demand
}

func (r Rows) check(w *World) error {
	if err := w.layer(r.Layer); err != nil {
		return err
	}
	l := &w.Layers[r.Layer]
	if len(r.Rows) != len(l.Units) || r.Source > Recent {
		return fmt.Errorf("layer %d has rows of %d units, by source %d; there are %d units and 3 sources", l.Number, len(r.Rows), r.Source, len(l.Units))
	}
	for i, n := range r.Rows {
		if err := number("the rows", n); err != nil {
			return fmt.Errorf("unit %v: %w", l.Units[i].Unit, err)
		}
	}
	return nil
}

func (r Rows) apply(w *World) {
	l := &w.Layers[r.Layer]
	for i, d := range l.Demand {
		if d.Source == r.Source {
			l.Demand[i] = r.Demand
			return
		}
	}
	l.Demand = append(l.Demand, r.Demand)
}

// Holds is all that hosts hold of a layer, by its place.
type Holds struct {
	Layer int
	Held  []Held
}

func (h Holds) check(w *World) error {
	if err := w.layer(h.Layer); err != nil {
		return err
	}
	for _, x := range h.Held {
		if err := w.replica(h.Layer, Replica(x)); err != nil {
			return err
		}
	}
	return nil
}

func (h Holds) apply(w *World) { w.Layers[h.Layer].Held = h.Held }

func number(what string, v float64) error {
	if !(v >= 0) || math.IsInf(v, 0) {
		return fmt.Errorf("%s: %v; it must be 0 or above", what, v)
	}
	return nil
}

func (w *World) layer(at int) error {
	if at < 0 || at >= len(w.Layers) {
		return fmt.Errorf("it is of layer %d in a list of %d", at, len(w.Layers))
	}
	return nil
}

func (w *World) replica(layer int, r Replica) error {
	l := &w.Layers[layer]
	if r.Unit < 0 || r.Unit >= len(l.Units) || r.Host < 0 || r.Host >= len(w.Hosts) {
		return fmt.Errorf("layer %d has unit %d on host %d; there are %d units and %d hosts", l.Number, r.Unit, r.Host, len(l.Units), len(w.Hosts))
	}
	return nil
}
