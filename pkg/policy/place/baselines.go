package place

import (
	"cmp"
	"slices"
)

// RoundRobin deals replicas out to hosts by their ids, whatever the loads, and
// passes over those that are full (§6.1, the placement of static expert
// parallelism).
func RoundRobin(s State) (Placement, error) {
	f := newFleet(s)
	dealt := 0
	experts := slices.SortedFunc(slices.Values(s.Experts), func(a, b Expert) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range experts {
		f.begin(e)
		for range e.Replicas {
			h := f.next(dealt, func(h int) bool { return f.fits(h, e) && !f.holds(h, e) })
			if h < 0 {
				h = f.next(dealt, func(h int) bool { return f.fits(h, e) })
			}
			if h < 0 {
				return Placement{}, f.noRoom(e, f.indices())
			}
			f.put(e, h)
			dealt++
		}
	}
	return f.placement(), nil
}

// next is the first host from the one whose turn it is that passes; -1 if none does.
func (f *fleet) next(turn int, pass func(h int) bool) int {
	for i := range f.hosts {
		if h := (turn + i) % len(f.hosts); pass(h) {
			return h
		}
	}
	return -1
}

// EPLB is the packing of DeepSeek's Expert Parallelism Load Balancer
// (github.com/deepseek-ai/EPLB), by its public description: heaviest first, each
// replica goes to the least loaded host, and all hosts get equally many, which
// here may differ by one. It moves what it likes: it does not look at what is
// warm. With nodes (its hierarchical variant) each packs its own experts.
//
// Unlike the public one it knows memory, which comes before equal counts, and
// keeps an expert's replicas apart (see Policy).
func EPLB(s State) (Placement, error) {
	f := newFleet(s)
	for _, node := range nodes(s.Experts) {
		if err := f.pack(node, s.Experts); err != nil {
			return Placement{}, err
		}
	}
	return f.placement(), nil
}

// nodes are the nodes that experts are for.
func nodes(experts []Expert) (ids []int) {
	for _, e := range experts {
		ids = append(ids, e.Node)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// pack places a node's experts on its hosts.
func (f *fleet) pack(node int, experts []Expert) error {
	own := slices.DeleteFunc(slices.Clone(experts), func(e Expert) bool { return e.Node != node })
	hosts := slices.DeleteFunc(f.indices(), func(h int) bool { return f.hosts[h].Node != node })
	replicas := 0
	for _, e := range own {
		replicas += e.Replicas
	}
	q := newQueue(f, hosts, own)
	if len(hosts) > 0 {
		q.each, q.extra = replicas/len(hosts), replicas%len(hosts)
	}
	for _, e := range byLoad(own) {
		if err := q.placeAll(e, nil); err != nil {
			return err
		}
	}
	return nil
}
