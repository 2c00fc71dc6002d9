package streamed

import (
	"math"

	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// replica is one of a function. It is billed from its start to its end.
type replica struct {
	unit  meter.Unit
	ready float64 // when its container has started
	held  bool    // the meter knows that
	used  float64 // when its last rows ended
}

// running is a function with its replicas, those that started first first.
type running struct {
	Function
	replicas []*replica
}

// layer is what is rented of one.
type layer struct {
	now  []*running
	next []*running // what takes over when all of it has started; nil: nothing does
	of   []int      // the function of each expert, -1: beside attention
}

// fleet is all that is rented but the main model.
type fleet struct {
	Settings
	meter  *meter.Meter
	layers []layer
	began  int // containers
}

func newFleet(s Settings) *fleet {
	f := &fleet{Settings: s, meter: meter.New(1), layers: make([]layer, s.System.Layers)}
	for l := range f.layers {
		f.layers[l].set(s.System.Experts)
	}
	return f
}

// set has experts know their functions.
func (l *layer) set(experts int) {
	l.of = make([]int, experts)
	for e := range l.of {
		l.of[e] = -1
	}
	for i, f := range l.now {
		for _, e := range f.Experts {
			l.of[e] = i
		}
	}
}

// start begins a replica's container, which has started at once if it is to be there from the
// run's beginning on.
func (f *fleet) start(r *running, now float64, warm bool) {
	one := &replica{ready: now, used: now}
	f.meter.Take(&one.unit, 0, int64(r.Memory), now)
	if !warm {
		one.ready += f.System.Functions.Cold(float64(len(r.Experts)) * f.System.Expert)
	}
	f.began++
	r.replicas = append(r.replicas, one)
}

// hold tells the meter what has started.
func (f *fleet) hold(one *replica, now float64) {
	if !one.held && one.ready <= now {
		f.meter.Hold(&one.unit, one.ready)
		one.held, one.used = true, max(one.used, one.ready)
	}
}

// drop ends all replicas of a function.
func (f *fleet) drop(r *running, now float64) {
	for _, one := range r.replicas {
		f.hold(one, now)
		f.meter.Drop(&one.unit, now)
	}
	r.replicas = nil
}

// follow makes a plan the one that is wanted. Functions that it has already stay; others start, and
// take a layer over when all of the layer's have started.
func (f *fleet) follow(p *Plan, now float64, warm bool) {
	for i := range f.layers {
		f.followLayer(&f.layers[i], p.Layers[i], now, warm)
	}
}

func (f *fleet) followLayer(l *layer, want []Function, now float64, warm bool) {
	waiting, old := l.next, l.now
	next, fresh := make([]*running, len(want)), false
	for i := range want {
		next[i] = found(l.now, &want[i])
		if next[i] == nil {
			fresh = true
			if next[i] = found(waiting, &want[i]); next[i] == nil {
				next[i] = &running{Function: want[i]}
			}
		}
		next[i].Replicas = want[i].Replicas
		for len(next[i].replicas) < want[i].Replicas {
			f.start(next[i], now, warm)
		}
	}
	l.next = nil
	for _, r := range waiting { // what is wanted no more, and never took over
		if !has(next, r) && !has(old, r) {
			f.drop(r, now)
		}
	}
	if fresh || len(next) != len(l.now) {
		l.next = next
		if l.next == nil {
			l.next = []*running{}
		}
	}
	f.turn(l, now)
}

// turn has a layer go over to what is to take over, once all of that has started.
func (f *fleet) turn(l *layer, now float64) {
	if l.next == nil || len(l.of) == 0 {
		return
	}
	for _, r := range l.next {
		if len(r.replicas) == 0 || r.replicas[0].ready > now {
			return
		}
	}
	for _, r := range l.now {
		if !has(l.next, r) {
			f.drop(r, now)
		}
	}
	l.now, l.next = l.next, nil
	l.set(f.System.Experts)
}

func found(in []*running, as *Function) *running {
	for _, r := range in {
		if r.same(as) {
			return r
		}
	}
	return nil
}

func has(in []*running, r *running) bool {
	for _, one := range in {
		if one == r {
			return true
		}
	}
	return false
}

// expire ends replicas of a layer that had no rows for the keep-alive.
func (f *fleet) expire(layer int, now float64) {
	l := &f.layers[layer]
	f.turn(l, now)
	for _, r := range l.now {
		kept := r.replicas[:0]
		for _, one := range r.replicas {
			f.hold(one, now)
			if end := one.used + f.KeepAlive; one.held && end < now {
				f.meter.Drop(&one.unit, end)
				continue
			}
			kept = append(kept, one)
		}
		r.replicas = kept
	}
}

// ready are the replicas of a function that rows may have now, as many as are wanted; where there
// is none the rows wait for the first one, and it says until when.
func (f *fleet) ready(r *running, now float64) (all []*replica, from float64) {
	if len(r.replicas) == 0 { // none was started with the batch
		f.start(r, now, false)
		f.meter.ColdStart()
	}
	first := math.Inf(1)
	for _, one := range r.replicas {
		first = min(first, one.ready)
	}
	from = max(now, first)
	for _, one := range r.replicas {
		if one.ready <= from && len(all) < r.Replicas {
			f.hold(one, from)
			all = append(all, one)
		}
	}
	return all, from
}

// used has replicas compute for a time, in the mean of them.
func (f *fleet) used(all []*replica, from, seconds float64) {
	for _, one := range all {
		f.meter.Serve(&one.unit, from, from, from+seconds)
		one.used = max(one.used, from+seconds)
	}
}
