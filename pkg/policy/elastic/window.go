package elastic

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/policy/static"
)

// In a large fleet each layer has a part of the hosts, as the static policy deals it
// (static.Deal): its replicas stay on these as long as they have room, so that the layer has
// few functions, and a host has some of few layers.

// deal is which of the hosts with slots a layer has, by its place among all layers.
func (r *round) deal(layer int) static.Deal {
	return static.DealOf(layer, len(r.k.Model.MoELayers), len(r.holders), r.k.Settings.Grouping)
}

func (r *round) windowed() bool { return !r.deal(0).Whole() }

// window are the hosts that a layer has; nil: all of them.
func (r *round) window(layer int) (hosts []int) {
	d := r.deal(layer)
	if d.Whole() {
		return nil
	}
	for i := range d.Hosts() {
		hosts = append(hosts, r.holders[d.Host(0, i)])
	}
	return hosts
}

// freeSlots are the slots of each host that nobody has; on some hosts, or all if there are
// none, and 0 on the others.
func (f *fleet) freeSlots(among []int) []int {
	slots := make([]int, len(f.hosts))
	if among == nil {
		for h := range slots {
			slots[h] = f.hosts[h].free()
		}
	}
	for _, h := range among {
		slots[h] = f.hosts[h].free()
	}
	return slots
}

// shareFate keeps experts awake that share a function with one that is: in a large fleet a
// function goes to zero whole, as each change of its experts makes another function of it.
func (w *work) shareFate() {
	if w.window == nil || w.in == nil {
		return
	}
	for _, f := range w.in.Functions {
		if f.Kind == plan.Routed && slices.ContainsFunc(f.Experts, func(e uint32) bool { return !w.idle[e] }) {
			for _, e := range f.Experts {
				w.idle[e] = false
			}
		}
	}
}

// moveWhole gives functions without a host another one each, which has nothing of the layer: in
// a large fleet no other function changes then. It is the host with least planned on it.
func (r *round) moveWhole(w *work) {
	if w.window == nil || w.in == nil {
		return
	}
	for _, f := range w.in.Functions {
		if f.Kind != plan.Routed || slices.ContainsFunc(f.Experts, func(e uint32) bool { return len(w.next[e]) > 0 }) {
			continue
		}
		to := r.strange(w.next, len(f.Experts))
		if to < 0 {
			return
		}
		for _, e := range f.Experts {
			want := warm
			if w.idle[e] {
				want = cold
			}
			w.next.set(int(e), want, to)
			r.hosts[to].used++
			w.why.count(byMissing, 1)
		}
	}
}

// strange is the host with so many slots that has nothing of a layer, and least planned on it;
// -1 if there is none.
func (f *fleet) strange(l layout, slots int) (best int) {
	has := make([]bool, len(f.hosts))
	for _, spots := range l {
		for _, s := range spots {
			has[s.host] = true
		}
	}
	best = -1
	for h := range f.hosts {
		if !has[h] && f.hosts[h].free() >= slots && (best < 0 || f.hosts[h].used < f.hosts[best].used) {
			best = h
		}
	}
	return best
}
