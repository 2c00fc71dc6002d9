package level

import "slices"

// step is a change of one expert's hosts: off one, onto another, or both. With an
// expert to swap, that one goes the other way.
type step struct {
	expert, from, to int // hosts; -1 is none
	swap             int // expert; -1 is none
	most             float64
}

// relieve takes the best step that makes the most loaded host less loaded, and no
// other as loaded as it was. It is false if there is none, or no need.
func (l *layout) relieve() bool {
	top := l.top()
	if l.hosts[top].load <= (1+l.Tolerance)*l.mean {
		return false
	}
	best := step{expert: -1, most: l.hosts[top].load * (1 - 1e-9)}
	for _, e := range l.hosts[top].on {
		for _, s := range l.steps(e, top) {
			if s.most = l.after(s); s.most < best.most && l.worth(s, top) {
				best = s
			}
		}
		l.swaps(e, top, &best)
	}
	if best.expert < 0 {
		return false
	}
	l.take(best)
	return true
}

func (l *layout) take(s step) {
	if s.from < 0 {
		l.makeRoom(s.expert)
	}
	if s.from >= 0 {
		l.remove(s.expert, s.from)
	}
	if s.swap >= 0 {
		l.remove(s.swap, s.to)
		l.add(s.swap, s.from)
	}
	if s.to >= 0 {
		l.add(s.expert, s.to)
	}
}

// swaps looks for a better step among exchanges of an expert of the most loaded
// host for a lighter one of another host.
func (l *layout) swaps(e, top int, best *step) {
	x := &l.experts[e]
	for h := range l.hosts {
		if h == top || slices.Contains(x.on, h) {
			continue
		}
		for _, f := range l.hosts[h].on {
			y := &l.experts[f]
			less := x.each() - y.each()
			if less <= 0 || slices.Contains(y.on, top) {
				continue
			}
			s := step{expert: e, from: top, to: h, swap: f, most: max(l.hosts[top].load-less, l.hosts[h].load+less)}
			fits := l.hosts[h].left+y.Bytes >= x.Bytes && l.hosts[top].left+x.Bytes >= y.Bytes
			if s.most < best.most && fits && l.hosts[top].load-s.most >= 2*l.Gain {
				*best = s
			}
		}
	}
}

// top is the most loaded host.
func (l *layout) top() int {
	best := 0
	for h := range l.hosts {
		if l.hosts[h].load > l.hosts[best].load {
			best = h
		}
	}
	return best
}

// steps are what can be done with an expert of the most loaded host: to cease there,
// to move, to be copied; to hosts that hold it, and to the least loaded one.
func (l *layout) steps(e, top int) (all []step) {
	x := &l.experts[e]
	if x.Load == 0 {
		return nil
	}
	if len(x.on) > 1 {
		all = append(all, step{expert: e, from: top, to: -1, swap: -1})
	}
	for _, h := range x.warm {
		if !slices.Contains(x.on, h) && l.hosts[h].left >= x.Bytes {
			all = l.onto(all, e, top, h)
		}
	}
	if h := l.least(e); h >= 0 {
		all = l.onto(all, e, top, h)
	}
	return all
}

// onto are the steps of an expert onto a host.
func (l *layout) onto(all []step, e, top, h int) []step {
	all = append(all, step{expert: e, from: top, to: h, swap: -1})
	if l.serving < len(l.experts)+l.Spare || l.spareable(e) >= 0 {
		all = append(all, step{expert: e, from: -1, to: h, swap: -1})
	}
	return all
}

// makeRoom ends a replica where there may be no more, of the expert that misses it
// least.
func (l *layout) makeRoom(e int) {
	if l.serving == len(l.experts)+l.Spare {
		f := l.spareable(e)
		l.remove(f, l.fullest(f))
	}
}

// spareable is the expert whose other replicas get least more when one ends; not
// one whose replica is worth as much as a further one of e.
func (l *layout) spareable(e int) int {
	best, least := -1, l.experts[e].Load/float64(len(l.experts[e].on)*(len(l.experts[e].on)+1))
	for f := range l.experts {
		x := &l.experts[f]
		n := float64(len(x.on))
		if more := x.Load / (n * (n - 1)); f != e && n > 1 && more < least/2 {
			best, least = f, more*2
		}
	}
	return best
}

// least is the least loaded host that does not serve an expert and has room for it;
// -1 if none has.
func (l *layout) least(e int) int {
	best, x := -1, &l.experts[e]
	for h := range l.hosts {
		if best >= 0 && l.hosts[h].load >= l.hosts[best].load {
			continue
		}
		if l.hosts[h].left >= x.Bytes && !slices.Contains(x.on, h) {
			best = h
		}
	}
	return best
}

// after is the largest load, after a step, of the hosts that it touches.
func (l *layout) after(s step) (most float64) {
	x := &l.experts[s.expert]
	n := len(x.on)
	if s.from >= 0 {
		n--
	}
	if s.to >= 0 {
		n++
	}
	before, each := x.each(), x.Load/float64(n)
	for _, h := range x.on {
		load := l.hosts[h].load - before
		if h != s.from {
			load += each
		}
		most = max(most, load)
	}
	if s.to >= 0 {
		most = max(most, l.hosts[s.to].load+each)
	}
	return most
}

// worth says whether a step needs no load, or saves enough for one.
func (l *layout) worth(s step, top int) bool {
	return s.to < 0 || l.hosts[top].load-s.most >= l.Gain || slices.Contains(l.experts[s.expert].warm, s.to)
}
