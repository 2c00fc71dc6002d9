package bytewise

import (
	"math"
	"slices"
)

// Options say how characters are written.
type Options struct {
	// Quoted has characters as JSON's strings have them.
	Quoted bool
	// Plain has no escapes of characters that can stand as they are, and one for each other.
	Plain bool
}

// Body has the texts that expressions match, by their characters and by the bytes of these. It
// is not changed once it is made: Strings of any lengths share it.
type Body struct {
	o       Options
	enc     *encoder
	d       *characters
	counted bool
	allowed []uint64 // (states, words): which classes lead on, if nothing is counted
	weight  int32    // the most bytes that the shortest character of a class has
	// within are the states that so many more characters may end, once lengths were asked for. From
	// settled on these are the same; it is -1 where they never are.
	within  [][]uint64
	settled int32
}

// Bounds are how many characters a text has; Most < 0: however many more.
type Bounds struct{ Least, Most int }

// AnyLength are no bounds.
var AnyLength = Bounds{0, -1}

// Simplify moves what an expression says of a text's length into bounds, and leaves out those
// that say nothing.
func Simplify(all []*Expression, within Bounds) ([]*Expression, Bounds) {
	if len(all) != 1 {
		return all, within
	}
	e := all[0]
	inner, search := searched(e)
	if begins, ends := inner.anchored(); !search || begins && ends {
		e, search = inner, false
	}
	if r := inner.ofOne(); r != nil && !search {
		within.Least = max(within.Least, r.least)
		if r.most >= 0 && (within.Most < 0 || r.most < within.Most) {
			within.Most = r.most
		}
		return []*Expression{repeated(r.sub[0], 0, -1)}, within
	}
	least, most := inner.lengths()
	if within.Least <= least {
		within.Least = 0
	}
	if !search && most >= 0 && most <= within.Most {
		within.Most = -1
	}
	return []*Expression{e}, within
}

// ofOne returns the repetition of one character that an expression is, between anchors or alone; nil: it
// is none.
func (e *Expression) ofOne() *Expression {
	if e.op == opJoin && len(e.sub) == 3 && e.sub[0].op == opBegin && e.sub[2].op == opEnd {
		e = e.sub[1]
	}
	if e.op == opRepeat && e.sub[0].op == opRunes {
		return e
	}
	return nil
}

// NewBody makes the automaton of texts that all of some expressions match. counted ones have no
// other bounds than their expression's own.
func NewBody(b *Budget, all []*Expression, counted bool, o Options) (*Body, error) {
	classes, err := partitionOf(b, append([]*Expression{anyRune()}, all...))
	if err != nil {
		return nil, err
	}
	out := &Body{o: o, counted: counted, settled: -1}
	for _, e := range all {
		d, err := newCharacters(b, classes, e, counted)
		if err == nil && out.d != nil {
			d, err = both(b, out.d, d)
		}
		if err != nil {
			return nil, err
		}
		out.d = d
	}
	if out.enc, err = newEncoder(b, classes, o); err != nil {
		return nil, err
	}
	for _, left := range out.enc.left[:out.enc.classes] {
		if left < math.MaxInt32 {
			out.weight = max(out.weight, left)
		}
	}
	out.counted = out.d.counts()
	if !out.counted {
		out.lead()
	}
	return out, nil
}

// counts reports whether any state has a counter.
func (d *characters) counts() bool {
	return slices.ContainsFunc(d.counter, func(c counter) bool { return c.most > 0 })
}

// both accepts what two automata without counters accept.
func both(b *Budget, one, other *characters) (*characters, error) {
	type pair struct{ a, b int32 }
	d := &characters{classes: one.classes}
	number, pairs := map[pair]int32{{one.start, other.start}: 0}, []pair{{one.start, other.start}}
	for at := 0; at < len(pairs); at++ {
		if err := b.takeState(); err != nil {
			return nil, err
		}
		if err := b.takeWork(d.classes); err != nil {
			return nil, err
		}
		p := pairs[at]
		d.rows = append(d.rows, [stages]int32{int32(at), int32(at), int32(at)})
		d.accepts = append(d.accepts, one.accepted(p.a, 0) && other.accepted(p.b, 0))
		for c := range int32(d.classes) {
			x, _ := one.next(p.a, 0, c)
			y, _ := other.next(p.b, 0, c)
			if x == Dead || y == Dead {
				d.steps = append(d.steps, step{Dead, none})
				continue
			}
			n, ok := number[pair{x, y}]
			if !ok {
				n = int32(len(pairs))
				number[pair{x, y}], pairs = n, append(pairs, pair{x, y})
			}
			d.steps = append(d.steps, step{n, none})
		}
	}
	d.counter = make([]counter, len(pairs))
	return d, (&determination{positions: positions{budget: b}, d: d}).measure()
}

// lead finds which classes lead on from states.
func (t *Body) lead() {
	words := t.enc.words
	t.allowed = make([]uint64, len(t.d.rows)*words)
	for s := range int32(len(t.d.rows)) {
		for c := range int32(t.d.classes) {
			if to, _ := t.d.next(s, 0, c); to != Dead {
				t.allowed[int(s)*words+int(c)/64] |= 1 << (c % 64)
			}
		}
	}
}

// perSettling is which part of the work that is left settle may take.
const perSettling = 8

// Bytes is about how much memory it takes.
func (t *Body) Bytes() int {
	return 8*(len(t.allowed)+len(t.enc.reach)+len(t.within)) + 4*(len(t.enc.next)+len(t.enc.left)+len(t.d.far)) + 8*len(t.d.steps) + 32*len(t.d.rows)
}

// Settle finds which states so many characters may end, for strings of any lengths. Behind it, goroutines may
// share the body.
func (t *Body) Settle(b *Budget) {
	states := len(t.d.rows)
	now := make([]uint64, (states+63)/64)
	for s := range int32(states) {
		if t.d.accepted(s, 0) {
			now[s/64] |= 1 << (s % 64)
		}
	}
	for left := b.Work / perSettling; left > 0; {
		left -= states * t.d.classes
		b.Work -= states * t.d.classes
		t.within = append(t.within, now)
		before := t.before(now)
		if slices.Equal(now, before) {
			t.settled = int32(len(t.within) - 1)
			return
		}
		now = before
	}
}

// before returns the states from which one character leads to some.
func (t *Body) before(some []uint64) []uint64 {
	out := make([]uint64, len(some))
	for s := range int32(len(t.d.rows)) {
		for c := range int32(t.d.classes) {
			if to, _ := t.d.next(s, 0, c); to != Dead && some[to/64]>>(to%64)&1 == 1 {
				out[s/64] |= 1 << (s % 64)
				break
			}
		}
	}
	return out
}

// ends reports whether so many more characters may end a state's text.
func (t *Body) ends(s, more int32) bool {
	return t.within[min(more, t.settled)][s/64]>>(s%64)&1 == 1
}

// unrolled returns a body whose states count characters, for bounds that have no other way.
func (t *Body) unrolled(b *Budget, within Bounds) (*Body, error) {
	length := repeated(anyRune(), within.Least, within.Most)
	classes := &partition{count: t.d.classes, sets: map[string][]int32{}}
	for c := range t.d.classes {
		key := string(anyRune().runes)
		classes.sets[key] = append(classes.sets[key], int32(c))
	}
	d, err := newCharacters(b, classes, length, false)
	if err == nil {
		d, err = both(b, t.d, d)
	}
	if err != nil {
		return nil, err
	}
	out := *t
	out.d, out.within = d, nil
	out.lead()
	return &out, nil
}
