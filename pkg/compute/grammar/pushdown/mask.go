package pushdown

import (
	"cmp"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
)

// local is what follows from a place in a terminal alone.
type local struct {
	mask []uint64 // the tokens that end within the terminal
	ends []int32  // the nodes of the trie that end it, and have more below
}

// scratch is reused from mask to mask.
type scratch struct {
	path []int32 // states of a terminal, by depth in the trie
	// looked is how many nodes of the trie locals took.
	looked int
	met    map[meeting]struct{}
}

// meeting is a node of the trie at which calls returned.
type meeting struct {
	node  int32
	calls *stack
}

// Mask has a bit for each token that may come next. It is not to be changed.
func (f *Follower) Mask(s *State) []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.mask != nil {
		return s.mask
	}
	if f.kept > maxMasks {
		f.forget()
	}
	mask := f.newMask()
	f.met = map[meeting]struct{}{}
	for _, it := range s.items {
		l := f.localOf(it.at)
		for i, word := range l.mask {
			mask[i] |= word
		}
		for _, node := range l.ends {
			f.beyond(mask, node, it.calls)
		}
	}
	s.mask = mask
	return mask
}

func (f *Follower) newMask() []uint64 {
	f.kept += 8 * f.vocab.words()
	return make([]uint64, f.vocab.words())
}

// localOf is what follows from a place in a terminal.
func (f *Follower) localOf(at int32) *local {
	l, ok := f.local[at]
	if !ok {
		l = &local{mask: f.newMask()}
		f.looked += f.below(l.mask, 0, at, func(node int32) { l.ends = append(l.ends, node) })
		f.kept += 4 * len(l.ends)
		f.local[at] = l
	}
	return l
}

// below marks the tokens below a node that end within a terminal, and tells of the nodes that
// end it and have more below.
func (f *Follower) below(mask []uint64, node, at int32, ends func(node int32)) (looked int) {
	term, base := f.g.terminal(at)
	v := f.vocab
	if len(f.path) <= v.deep {
		f.path = make([]int32, v.deep+1)
	}
	states := f.path
	states[v.nodes[node].depth] = at - base
	for i, end := node+1, v.nodes[node].end; i < end; {
		n := &v.nodes[i]
		looked++
		to := term.Next(states[n.depth-1], n.b)
		if to == bytewise.Dead {
			i = n.end
			continue
		}
		states[n.depth] = to
		for _, id := range v.tokens(i) {
			mask[id>>6] |= 1 << (id & 63)
		}
		i++
		if n.end > i && term.Accepts(to) {
			ends(i - 1)
		}
	}
	return looked
}

// warmNodes is how many nodes of the trie Warm looks at, some tens of milliseconds' work.
const warmNodes = 4 << 20

// Warm computes what follows from places in terminals, of the small ones first, so that the
// first steps need not.
func (f *Follower) Warm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	order := make([]int, len(f.g.terms))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.g.terms[a].States(), f.g.terms[b].States()) })
	f.looked = 0
	for _, i := range order {
		for s := range int32(f.g.terms[i].States()) {
			if f.looked > warmNodes || f.kept > maxMasks/2 {
				return
			}
			f.localOf(f.g.bases[i] + s)
		}
	}
}

// beyond marks the tokens below a node at which a terminal ended.
func (f *Follower) beyond(mask []uint64, node int32, calls *stack) {
	if calls.behind == nil {
		w := f.walk()
		w.back(calls)
		if calls.behind = w.state(); calls.behind == nil {
			calls.behind = &State{}
		}
	}
	var ends []int32
	for _, it := range calls.behind.items {
		ends = ends[:0]
		f.below(mask, node, it.at, func(at int32) { ends = append(ends, at) })
		for _, at := range ends {
			m := meeting{at, it.calls}
			if _, ok := f.met[m]; !ok {
				f.met[m] = struct{}{}
				f.beyond(mask, at, it.calls)
			}
		}
	}
}

// terminal is the automaton that a state belongs to, and the number of that automaton's first state.
func (g *Grammar) terminal(at int32) (term *bytewise.DFA, base int32) {
	i := g.of[at]
	return g.terms[i], g.bases[i]
}
