package brownout

import "github.com/switchyard/switchyard/internal/reuse"

// NoExpert marks a slot that no expert computes; it is what package forward has for it.
const NoExpert = -1

// Redirect changes a row's slots to what a decision makes of them: a united expert has the
// number of routed experts plus its group. A slot that none computes is NoExpert with weight 0.
// It returns how many slots are degraded.
func (d *Decision) Redirect(expert []int32, weight []float32) (degraded int) {
	for i, e := range expert {
		if e < 0 || int(e) >= len(d.Fate) {
			continue
		}
		switch d.Fate[e] {
		case Dropped:
			expert[i], weight[i] = NoExpert, 0
		case United:
			d.united(expert, weight, i)
		default:
			continue
		}
		degraded++
	}
	return degraded
}

// united hands slot i to its group's united expert, and to the slot that has it already.
func (d *Decision) united(expert []int32, weight []float32, i int) {
	id := int32(len(d.Fate) + d.Group(int(expert[i])))
	for j := range i {
		if expert[j] == id {
			weight[j] += weight[i]
			expert[i], weight[i] = NoExpert, 0
			return
		}
	}
	expert[i] = id
}

// Pair decides for both phases of a layer's microbatch. Its memory is kept like a Splitter's.
type Pair struct {
	split  [2]Splitter
	anyway [2][]bool
}

// Split decides for two phases; never are the rows of each expert that must not be degraded. The
// phase with more rows is decided first, and an expert that either phase, or never, accesses
// serves all its rows. It returns both decisions in the order of the phases, and how many
// accesses the layer has in all.
func (p *Pair) Split(s [2]Settings, r [2]Rows, never []int32) (d [2]*Decision, accesses int, err error) {
	first := 0
	if sum(r[1].Count) > sum(r[0].Count) {
		first = 1
	}
	second := 1 - first
	for i := range p.anyway {
		p.anyway[i] = reuse.Slice(p.anyway[i], len(r[i].Count))
		for e := range p.anyway[i] {
			p.anyway[i][e] = e < len(never) && never[e] > 0
		}
		r[i].Anyway = p.anyway[i]
	}
	if d[first], err = p.split[first].Split(s[first], r[first]); err != nil {
		return d, 0, err
	}
	for e, f := range d[first].Fate {
		if e < len(p.anyway[second]) && f.Itself() {
			p.anyway[second][e] = true
		}
	}
	if d[second], err = p.split[second].Split(s[second], r[second]); err != nil {
		return d, 0, err
	}
	d[first].visit(d[second])
	p.split[first].finish(r[first].Count)
	return d, together(d, p.anyway[second], never), nil
}

// visit lets experts that another decision accesses serve this one's rows too. An expert that
// is then alone of its group in S2 runs itself, unless the other decision accesses the group's
// united expert.
func (d *Decision) visit(other *Decision) {
	for e, f := range other.Fate {
		if f.Itself() && (d.Fate[e] == United || d.Fate[e] == Dropped) {
			d.Fate[e] = Visited
		}
	}
	for first := 0; first < len(d.Fate); first += d.Way {
		alone, n := -1, 0
		for at := first; at < min(first+d.Way, len(d.Fate)); at++ {
			if d.at(at) == United {
				alone, n = d.by.Expert(at), n+1
			}
		}
		if n == 1 && !other.unites(d.Group(alone)) {
			d.Fate[alone] = Lone
		}
	}
}

// unites reports whether a group's united expert is accessed.
func (d *Decision) unites(group int) bool {
	for at := group * d.Way; at < min((group+1)*d.Way, len(d.Fate)); at++ {
		if d.at(at) == United {
			return true
		}
	}
	return false
}

// together counts what two decisions and rows that are never degraded access.
func together(d [2]*Decision, seen []bool, never []int32) (n int) {
	for e := range seen {
		if d[0].Fate[e].Itself() || d[1].Fate[e].Itself() || e < len(never) && never[e] > 0 {
			n++
		}
	}
	for g := range Groups(len(seen), d[0].Way) {
		if d[0].unites(g) || d[1].unites(g) {
			n++
		}
	}
	return n
}

func sum(count []int32) (n int) {
	for _, c := range count {
		n += int(c)
	}
	return n
}
