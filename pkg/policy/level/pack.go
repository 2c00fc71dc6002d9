package level

import "slices"

// pack forgets what served: it gives n replicas to experts by their loads, and
// places them by load, the heaviest first, as many on each host. One goes to a
// host that holds its expert, unless that gets more than its part by it, else to
// the least loaded. It is false where they do not fit.
func (l *layout) pack(n int) bool {
	replicas := l.replicas(n)
	each := func(e int) float64 { return l.experts[e].Load / float64(replicas[e]) }
	for _, e := range l.order(each) {
		for range replicas[e] {
			h := l.choose(e, each(e), (n+len(l.hosts)-1)/len(l.hosts))
			if h < 0 {
				return false
			}
			l.experts[e].on = append(l.experts[e].on, h)
			l.hosts[h].load += each(e)
			l.serve(e, h)
		}
	}
	return true
}

// replicas gives each expert one, and each further one to the expert whose replicas
// have most load.
func (l *layout) replicas(n int) []int {
	counts := make([]int, len(l.experts))
	for e := range counts {
		counts[e] = 1
	}
	for left := n - len(counts); left > 0; left-- {
		best := -1
		for e := range counts {
			if counts[e] < len(l.hosts) && (best < 0 || l.experts[e].Load/float64(counts[e]) > l.experts[best].Load/float64(counts[best])) {
				best = e
			}
		}
		if best < 0 {
			break
		}
		counts[best]++
	}
	return counts
}

// choose is the host for a replica; -1 if none has room.
func (l *layout) choose(e int, each float64, most int) int {
	x, best := &l.experts[e], -1
	open := func(h int) bool {
		y := &l.hosts[h]
		return y.left >= x.Bytes && len(y.on) < most && !slices.Contains(y.on, e)
	}
	for _, h := range x.warm {
		if open(h) && l.hosts[h].load+each <= (1+l.Tolerance)*l.mean && (best < 0 || l.hosts[h].load < l.hosts[best].load) {
			best = h
		}
	}
	if best >= 0 {
		return best
	}
	for h := range l.hosts {
		if open(h) && (best < 0 || l.hosts[h].load < l.hosts[best].load) {
			best = h
		}
	}
	return best
}
