package pushdown

import (
	"slices"
	"sync"

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

// spotIn is a place in an automaton or in strings; in a body, in strings that differ in their length alone.
type spotIn struct {
	of any
	within
}

// maxLocals is how many bytes of locals are kept of all grammars.
const maxLocals = 128 << 20

// locals are kept of a vocabulary for all grammars, since most share their terminals.
type locals struct {
	mu    sync.Mutex
	of    map[spotIn]any // *local or *loose
	bytes int
}

// localsOf finds what follows from a place, or makes it, which says how many bytes it has.
func localsOf[T any](v *Vocabulary, key spotIn, build func() (T, int)) T {
	l := &v.locals
	l.mu.Lock()
	known, ok := l.of[key].(T)
	l.mu.Unlock()
	if ok {
		return known
	}
	made, bytes := build()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes += bytes; l.of == nil || l.bytes > maxLocals {
		l.of, l.bytes = map[spotIn]any{}, bytes
	}
	l.of[key] = made
	return made
}

// scratch is reused from mask to mask.
type scratch struct {
	path []within // places in a terminal, by depth in the trie
	met  map[meeting]struct{}
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
	f.keep(8 * f.vocab.words())
	return make([]uint64, f.vocab.words())
}

// localOf returns what follows from a place in a terminal.
func (f *Follower) localOf(at inside) *local {
	term := &f.g.terms[at.term]
	if term.dfa != nil {
		return f.localIn(term.dfa, at.at)
	}
	return localsOf(f.vocab, spotIn{term.text, at.within}, func() (*local, int) {
		l := &local{mask: make([]uint64, f.vocab.words())}
		if term.text.Free() != nil {
			f.bounded(l, term.text, at.within)
		} else {
			f.walkLocal(l, term, at.within)
		}
		return l, l.bytes()
	})
}

func (l *local) bytes() int { return 8*len(l.mask) + 4*cap(l.ends) }

// localIn returns what follows from a state of an automaton. What differs from the hub is what is looked for: from most
// states of a text of almost any characters the same tokens go on.
func (f *Follower) localIn(d *bytewise.DFA, at int32) *local {
	key := spotIn{d, within{at: at}}
	return localsOf(f.vocab, key, func() (*local, int) {
		if d.Hub == bytewise.Dead || d.Hub == at {
			return f.hubOf(d, at)
		}
		hub := f.localIn(d, d.Hub)
		l := &local{mask: slices.Clone(hub.mask)}
		f.differ(l, hub, d, at)
		return l, l.bytes()
	})
}

// hubOf is localIn by all nodes that can be read. Automata that differ elsewhere share it.
func (f *Follower) hubOf(d *bytewise.DFA, at int32) (*local, int) {
	find := func() (*local, int) {
		l := &local{mask: make([]uint64, f.vocab.words())}
		f.walkLocal(l, &terminal{dfa: d}, within{at: at})
		return l, l.bytes()
	}
	if d.Hub == at {
		if like, ok := d.Like(at); ok {
			return localsOf(f.vocab, spotIn{of: like}, find), 0
		}
	}
	return find()
}

func (f *Follower) walkLocal(l *local, term *terminal, at within) {
	f.below(term, 0, at, func(i int32, to within) {
		v := f.vocab
		for _, id := range v.tokens(i) {
			l.mask[id>>6] |= 1 << (id & 63)
		}
		if v.nodes[i].end > i+1 && term.accepts(to) {
			l.ends = append(l.ends, i)
		}
	})
}

// differ makes a local of the hub's one, by the nodes at which the two are in different states.
func (f *Follower) differ(l, hub *local, d *bytewise.DFA, at int32) {
	v, ends := f.vocab, hub.ends
	path := make([][2]int32, v.deep+1)
	path[0] = [2]int32{at, d.Hub}
	next := func(s int32, b byte) int32 {
		if s == bytewise.Dead {
			return s
		}
		return d.Next(s, b)
	}
	for i := int32(1); int(i) < len(v.nodes); {
		f.take(1)
		n := &v.nodes[i]
		from := path[n.depth-1]
		to, of := next(from[0], n.b), next(from[1], n.b)
		for len(ends) > 0 && ends[0] < i {
			ends = ends[1:]
		}
		switch to {
		case of:
			for ; len(ends) > 0 && ends[0] < n.end; ends = ends[1:] {
				l.ends = append(l.ends, ends[0])
			}
			i = n.end
			continue
		case bytewise.Dead:
			for _, id := range v.below(i) {
				l.mask[id>>6] &^= 1 << (id & 63)
			}
			i = n.end
			continue
		}
		path[n.depth] = [2]int32{to, of}
		for _, id := range v.tokens(i) {
			l.mask[id>>6] |= 1 << (id & 63)
		}
		if n.end > i+1 && d.Accepts(to) {
			l.ends = append(l.ends, i)
		}
		i++
	}
}

// bounded is localOf in strings of some length: what is too long for them is left out.
func (f *Follower) bounded(l *local, t *bytewise.Strings, at within) {
	all := f.looseOf(t, at.at)
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
}

// looseOf returns what follows from a state of strings, of whatever length.
func (f *Follower) looseOf(t *bytewise.Strings, at int32) *loose {
	return localsOf(f.vocab, spotIn{t.Body, within{at: at}}, func() (*loose, int) {
		all := &loose{mask: make([]uint64, f.vocab.words())}
		free := &terminal{text: t.Free()}
		number := map[within]int{}
		f.below(free, 0, within{at: at}, func(i int32, to within) {
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
			}
			if v.nodes[i].end > i+1 && free.accepts(to) {
				all.ends = append(all.ends, looseEnd{i, to.count})
			}
		})
		return all, 8*len(all.mask) + 4*f.vocab.size + 8*cap(all.ends)
	})
}

// below goes through the nodes below one that a terminal can read, and tells of each.
func (f *Follower) below(term *terminal, node int32, at within, tell func(node int32, to within)) {
	f.take(ofStep)
	v := f.vocab
	if len(f.path) <= v.deep {
		f.path = make([]within, v.deep+1)
	}
	path := f.path
	path[v.nodes[node].depth] = at
	looked := 0
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
}

// beyond marks the tokens below a node at which a terminal ended.
func (f *Follower) beyond(mask []uint64, node int32, calls *stack) {
	if f.allBelow(mask, node) {
		return // another way of reading the same text was there before
	}
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
const manyItems = 2

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

// allBelow reports whether all tokens below a node are marked.
func (f *Follower) allBelow(mask []uint64, node int32) bool {
	ids := f.vocab.below(node)[len(f.vocab.tokens(node)):]
	for i, id := range ids {
		if mask[id>>6]>>(id&63)&1 == 0 {
			f.take(i / 4)
			return false
		}
	}
	f.take(len(ids) / 4)
	return true
}
