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

// loose is local for strings of any length, by where tokens end and how many characters they have.
type loose struct {
	mask   []uint64
	groups []group
	ends   []looseEnd
}

type group struct {
	to  within
	ids []uint32
}

type looseEnd struct{ node, count int32 }

// looseKey is a place in strings that differ in their length alone.
type looseKey struct {
	of *bytewise.Body
	at int32
}

// scratch is reused from mask to mask.
type scratch struct {
	path []within // places in a terminal, by depth in the trie
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
func (f *Follower) Mask(s *State, w *Work) ([]uint64, error) {
	err := f.do(w, func() {
		if s.mask != nil {
			return
		}
		as := f.like(s)
		if as.mask == nil {
			as.mask = f.maskOf(as)
		}
		s.mask = as.mask
	})
	return s.mask, err
}

func (f *Follower) maskOf(s *State) []uint64 {
	mask := f.newMask()
	f.met = map[meeting]struct{}{}
	for _, it := range s.items {
		l := f.localOf(it.inside)
		f.take(len(l.mask) / 8)
		for i, word := range l.mask {
			mask[i] |= word
		}
		for _, node := range l.ends {
			f.beyond(mask, node, it.calls)
		}
	}
	return mask
}

func (f *Follower) newMask() []uint64 {
	f.kept += 8 * f.vocab.words()
	return make([]uint64, f.vocab.words())
}

// localOf is what follows from a place in a terminal.
func (f *Follower) localOf(at inside) *local {
	l, ok := f.local[at]
	if !ok {
		term := &f.g.terms[at.term]
		if term.text != nil && term.text.Free() != nil {
			l = f.bounded(term.text, at.within)
		} else {
			l = &local{mask: f.newMask()}
			f.looked += f.below(term, 0, at.within, func(i int32, to within) {
				v := f.vocab
				for _, id := range v.tokens(i) {
					l.mask[id>>6] |= 1 << (id & 63)
				}
				if v.nodes[i].end > i+1 && term.accepts(to) {
					l.ends = append(l.ends, i)
				}
			})
		}
		f.kept += 4 * len(l.ends)
		f.local[at] = l
	}
	return l
}

// bounded is localOf in strings of some length: what is too long for them is left out.
func (f *Follower) bounded(t *bytewise.Strings, at within) *local {
	all := f.looseOf(t, at.at)
	l := &local{mask: f.newMask()}
	copy(l.mask, all.mask)
	for _, g := range all.groups {
		if !t.Alive(g.to.at, at.count+g.to.count) {
			for _, id := range g.ids {
				l.mask[id>>6] &^= 1 << (id & 63)
			}
		}
	}
	for _, end := range all.ends {
		if t.Ends(at.count + end.count) {
			l.ends = append(l.ends, end.node)
		}
	}
	return l
}

// looseOf is what follows from a state of strings, of whatever length.
func (f *Follower) looseOf(t *bytewise.Strings, at int32) *loose {
	key := looseKey{t.Body, at}
	all, ok := f.loose[key]
	if ok {
		return all
	}
	all = &loose{mask: f.newMask()}
	free := &terminal{text: t.Free()}
	number := map[within]int{}
	f.looked += f.below(free, 0, within{at: at}, func(i int32, to within) {
		v := f.vocab
		if ids := v.tokens(i); len(ids) > 0 {
			n, known := number[to]
			if !known {
				n = len(all.groups)
				number[to], all.groups = n, append(all.groups, group{to: to})
			}
			all.groups[n].ids = append(all.groups[n].ids, ids...)
			for _, id := range ids {
				all.mask[id>>6] |= 1 << (id & 63)
			}
			f.kept += 4 * len(ids)
		}
		if v.nodes[i].end > i+1 && free.accepts(to) {
			all.ends = append(all.ends, looseEnd{i, to.count})
			f.kept += 8
		}
	})
	f.loose[key] = all
	return all
}

// below goes through the nodes below one that a terminal can read, and tells of each.
func (f *Follower) below(term *terminal, node int32, at within, tell func(node int32, to within)) (looked int) {
	f.take(ofStep)
	v := f.vocab
	if len(f.path) <= v.deep {
		f.path = make([]within, v.deep+1)
	}
	path := f.path
	path[v.nodes[node].depth] = at
	for i, end := node+1, v.nodes[node].end; i < end; {
		n := &v.nodes[i]
		if looked++; looked&1023 == 0 {
			f.take(1024)
		}
		to := term.next(path[n.depth-1], n.b)
		if to.at == bytewise.Dead {
			i = n.end
			continue
		}
		path[n.depth] = to
		tell(i, to)
		i++
	}
	return looked
}

// warmNodes is how many nodes of the trie Warm looks at, some tens of milliseconds' work.
const warmNodes = 4 << 20

// Warm computes what follows from places in terminals, of the small ones first, so that the
// first steps need not.
func (f *Follower) Warm() {
	_ = f.do(f.vocab.PerToken(), f.warm)
}

func (f *Follower) warm() {
	f.looked = 0
	places := make([][]within, len(f.g.terms))
	order := make([]int, len(f.g.terms))
	for i := range order {
		order[i], places[i] = i, f.g.terms[i].places()
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(places[a]), len(places[b])) })
	for _, i := range order {
		for _, at := range places[i] {
			if f.looked > warmNodes || f.kept > maxMasks/2 {
				return
			}
			f.localOf(inside{int32(i), f.g.terms[i].like(at, f.vocab.deep)})
		}
	}
}

// places are those of a terminal where nothing was counted.
func (t *terminal) places() (out []within) {
	if t.dfa != nil {
		for at := range int32(t.dfa.States()) {
			out = append(out, within{at: at})
		}
		return out
	}
	for at := range t.text.Between {
		out = append(out, within{at: at})
	}
	return out
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
	if len(calls.behind.items) > manyItems {
		f.joined(mask, node, calls.behind)
		return
	}
	var ends []int32
	for _, it := range calls.behind.items {
		ends = ends[:0]
		term, v := &f.g.terms[it.term], f.vocab
		f.below(term, node, it.within, func(i int32, to within) {
			for _, id := range v.tokens(i) {
				mask[id>>6] |= 1 << (id & 63)
			}
			if v.nodes[i].end > i+1 && term.accepts(to) {
				ends = append(ends, i)
			}
		})
		for _, at := range ends {
			m := meeting{at, it.calls}
			if _, ok := f.met[m]; !ok {
				f.met[m] = struct{}{}
				f.beyond(mask, at, it.calls)
			}
		}
	}
}

// manyItems is from how many items on a state is followed as a whole, whose successors are kept.
const manyItems = 32

// joined marks the tokens below a node that a state can read.
func (f *Follower) joined(mask []uint64, node int32, s *State) {
	v := f.vocab
	path := make([]*State, v.deep+1)
	path[v.nodes[node].depth] = s
	for i, end := node+1, v.nodes[node].end; i < end; {
		f.take(1)
		n := &v.nodes[i]
		to := f.after(path[n.depth-1], n.b)
		if to == nil {
			i = n.end
			continue
		}
		path[n.depth] = to
		for _, id := range v.tokens(i) {
			mask[id>>6] |= 1 << (id & 63)
		}
		i++
	}
}
