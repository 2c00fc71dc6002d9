package pushdown

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
)

// Place is a place in a rule.
type Place int32

// Rule names a rule.
type Rule int32

// Rules are a grammar that is being made.
type Rules struct {
	// Places is how many more may be made, Moves what may be done at all of them.
	Places, Moves int
	// Merge looks for places that are alike, of which there are many in grammars that read a text in many ways.
	Merge  bool
	rules  []rule
	places []place
	terms  []terminal
	known  map[any]int32
	err    error
}

// Guard is which counts of a rule's a way needs, and whether it adds one to them. A rule counts
// from 0 each time that it begins. Most < 0: however many more.
type Guard struct {
	Least, Most int
	Adds        bool
}

// Always is the guard of a way that counts nothing.
var Always = Guard{0, -1, false}

// lets reports whether a count passes.
func (g Guard) lets(count int32) bool {
	return int(count) >= g.Least && (g.Most < 0 || int(count) <= g.Most)
}

// and returns what passes both; it adds where the second does.
func (g Guard) and(then Guard) Guard {
	then.Least = max(then.Least, g.Least)
	if g.Most >= 0 && (then.Most < 0 || g.Most < then.Most) {
		then.Most = g.Most
	}
	return then
}

type rule struct {
	begin, end Place
	name       string
}

type place struct {
	free  []freeMove
	terms []termMove
	calls []callMove
}

type freeMove struct {
	to   Place
	when Guard
}

type termMove struct {
	term int32
	to   Place
	when Guard
}

type callMove struct {
	rule Rule
	to   Place
	when Guard
}

// New returns no rules yet, for at most so many places and moves.
func New(places, moves int) *Rules {
	return &Rules{Places: places, Moves: moves, known: map[any]int32{}}
}

// Add makes a rule without a way through it.
func (r *Rules) Add(name string) (id Rule, begin, end Place) {
	begin, end = r.Place(), r.Place()
	r.rules = append(r.rules, rule{begin, end, name})
	return Rule(len(r.rules) - 1), begin, end
}

// Place makes a place.
func (r *Rules) Place() Place {
	if r.Places--; r.Places < 0 && r.err == nil {
		r.err = &bytewise.TooLargeError{What: "places in rules"}
	}
	if r.err != nil && len(r.places) > 0 {
		return 0 // Err tells
	}
	r.places = append(r.places, place{})
	return Place(len(r.places) - 1)
}

// Err says that the rules are too large.
func (r *Rules) Err() error { return r.err }

// Free lets one go on from a place to another one.
func (r *Rules) Free(from, to Place) { r.FreeIf(Always, from, to) }

// FreeIf is Free for some counts. It adds nothing.
func (r *Rules) FreeIf(when Guard, from, to Place) {
	r.places[from].free = append(r.places[from].free, freeMove{to, when})
}

// Term lets a text of an automaton be between two places.
func (r *Rules) Term(from, to Place, d *bytewise.DFA) { r.term(Always, from, to, terminal{dfa: d}, d) }

// TermIf is Term for some counts.
func (r *Rules) TermIf(when Guard, from, to Place, d *bytewise.DFA) {
	r.term(when, from, to, terminal{dfa: d}, d)
}

// Text lets one of some strings be between two places.
func (r *Rules) Text(from, to Place, t *bytewise.Strings) { r.TextIf(Always, from, to, t) }

// TextIf is Text for some counts.
func (r *Rules) TextIf(when Guard, from, to Place, t *bytewise.Strings) {
	r.term(when, from, to, terminal{text: t}, t)
}

func (r *Rules) term(when Guard, from, to Place, t terminal, key any) {
	n, ok := r.known[key]
	if !ok {
		n = int32(len(r.terms))
		r.terms, r.known[key] = append(r.terms, t), n
	}
	r.places[from].terms = append(r.places[from].terms, termMove{n, to, when})
}

// Call lets a text of a rule be between two places.
func (r *Rules) Call(from, to Place, what Rule) { r.CallIf(Always, from, to, what) }

// CallIf is Call for some counts.
func (r *Rules) CallIf(when Guard, from, to Place, what Rule) {
	r.places[from].calls = append(r.places[from].calls, callMove{what, to, when})
}

// RecursionError names a rule that would begin with itself.
type RecursionError struct{ Rule string }

// Error says what to do instead.
func (e *RecursionError) Error() string {
	return fmt.Sprintf("%s begins with itself, with nothing before: put something before it, or repeat it instead", e.Rule)
}

// EmptyError names a rule that no text ends.
type EmptyError struct{ Rule string }

// Error says what is wrong.
func (e *EmptyError) Error() string {
	return fmt.Sprintf("%s has no text that ends: each way through it needs itself again, allows nothing, or has more than %d bytes", e.Rule, never)
}

// Grammar is what rules come to, from one of them on.
type Grammar struct {
	terms  []terminal
	flat   []flatPlace
	counts []*counts // what the rule of a place counts; nil: nothing
	first  []int32   // of each place's distances
	far    []int32   // bytes from a place to its rule's end, by count
	begin  Place
}

// flatPlace has what can be done at a place, free moves followed.
type flatPlace struct {
	terms []termMove
	calls []callMove
	ends  []Guard // of the rule's end
}

// counts are the counts of a rule that matter: from each of them on some guard says another thing.
type counts struct {
	from  []int32
	least int32 // the most that any guard asks for
}

// at returns a count as far as it matters.
func (c *counts) at(n int32) int32 {
	if c == nil {
		return 0
	}
	return min(n, c.from[len(c.from)-1])
}

// like returns the first count for which what comes within some bytes is as for another one.
func (c *counts) like(n int32, bytes int) int32 {
	if c == nil {
		return 0
	}
	last := int32(0)
	for _, from := range c.from {
		switch {
		case from <= n:
			last = from
		case int(from-n) <= bytes:
			return n
		default:
			return last
		}
	}
	return last
}

// distance returns a place's distance at a count.
func (g *Grammar) distance(p Place, n int32) int32 { return g.far[g.spot(p, n)] }

// spot returns the number of a place's distance at a count.
func (g *Grammar) spot(p Place, n int32) int32 {
	if c := g.counts[p]; c != nil {
		return g.first[p] + min(n, c.least)
	}
	return g.first[p]
}

// Finish checks the rules and makes them a grammar that begins with one.
func (r *Rules) Finish(begin Rule) (*Grammar, error) {
	if r.err != nil {
		return nil, r.err
	}
	g := &Grammar{terms: r.terms, begin: r.rules[begin].begin}
	ends := map[Place]bool{}
	for _, rule := range r.rules {
		ends[rule.end] = true
	}
	g.flat = make([]flatPlace, len(r.places))
	for p := range r.places {
		g.flat[p] = r.flatten(Place(p), ends)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := r.count(g); err != nil {
		return nil, err
	}
	r.measure(g)
	if err := r.checkBeginnings(g); err != nil {
		return nil, err
	}
	if g.distance(g.begin, 0) == never {
		return nil, &EmptyError{r.rules[begin].name}
	}
	if err := g.prune(r); err != nil {
		return nil, err
	}
	if r.Merge {
		g.merge()
	}
	return g, nil
}

// flatten follows the free moves of a place.
func (r *Rules) flatten(p Place, ends map[Place]bool) (out flatPlace) {
	seen, queue := map[freeMove]bool{{p, Always}: true}, []freeMove{{p, Always}}
	for len(queue) > 0 {
		at := &r.places[queue[0].to]
		here := queue[0]
		queue = queue[1:]
		for _, m := range at.terms {
			m.when = here.when.and(m.when)
			out.terms = append(out.terms, m)
		}
		for _, m := range at.calls {
			m.when = here.when.and(m.when)
			out.calls = append(out.calls, m)
		}
		if ends[here.to] {
			out.ends = append(out.ends, here.when)
		}
		if r.Moves -= len(at.terms) + len(at.calls) + 1; r.Moves < 0 && r.err == nil {
			r.err = &bytewise.TooLargeError{What: "choices between what may come next"}
		}
		if r.err != nil {
			return out
		}
		for _, m := range at.free {
			m.when = here.when.and(m.when)
			if !seen[m] {
				seen[m] = true
				queue = append(queue, m)
			}
		}
	}
	return out
}

// count finds which counts of rules matter.
func (r *Rules) count(g *Grammar) error {
	g.counts = make([]*counts, len(g.flat))
	done := make([]bool, len(g.flat))
	for _, rule := range r.rules {
		places := []Place{rule.begin}
		done[rule.begin] = true
		c := &counts{from: []int32{0}}
		for i := 0; i < len(places); i++ {
			f := &g.flat[places[i]]
			for _, when := range f.ends {
				c.take(when)
			}
			f.each(func(to Place, when Guard) {
				c.take(when)
				if !done[to] {
					done[to] = true
					places = append(places, to)
				}
			})
		}
		if c.close(); len(c.from) == 1 {
			continue
		}
		for _, p := range places {
			g.counts[p] = c
		}
	}
	total := 0
	for _, c := range g.counts {
		g.first = append(g.first, int32(total))
		if total++; c != nil {
			total += int(c.least)
		}
	}
	if r.Moves -= total; r.Moves < 0 {
		return &bytewise.TooLargeError{What: "counts of what has to come at least"}
	}
	g.far = make([]int32, total)
	return nil
}

// each tells of each move that reads something.
func (f *flatPlace) each(tell func(to Place, when Guard)) {
	for _, m := range f.terms {
		tell(m.to, m.when)
	}
	for _, m := range f.calls {
		tell(m.to, m.when)
	}
}

func (c *counts) take(when Guard) {
	c.from = append(c.from, int32(when.Least))
	c.least = max(c.least, int32(when.Least))
	if when.Most >= 0 {
		c.from = append(c.from, int32(when.Most)+1)
	}
}

func (c *counts) close() {
	slices.Sort(c.from)
	c.from = slices.Compact(c.from)
}

// never is more bytes than any text has.
const never = 1 << 28

// spot is a place at a count.
type spot struct {
	p Place
	n int32
}

// measure finds the least bytes to the ends of rules, at each count that matters to that.
func (r *Rules) measure(g *Grammar) {
	needed := make([][]spot, len(g.far)) // the spots that need each one's distance
	var queue []spot
	queued := make([]bool, len(g.far))
	at := g.spot
	for p := len(g.flat) - 1; p >= 0; p-- {
		last := int32(0)
		if c := g.counts[p]; c != nil {
			last = c.least
		}
		for n := last; n >= 0; n-- {
			here := spot{Place(p), n}
			g.far[at(here.p, n)] = never
			r.needs(g, here, func(of int32) { needed[of] = append(needed[of], here) })
			queue, queued[at(here.p, n)] = append(queue, here), true
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		p, n := queue[0].p, queue[0].n
		queued[at(p, n)] = false
		least := r.leastFrom(g, p, n)
		if least >= g.far[at(p, n)] {
			continue
		}
		g.far[at(p, n)] = least
		for _, by := range needed[at(p, n)] {
			if !queued[at(by.p, by.n)] {
				queue, queued[at(by.p, by.n)] = append(queue, by), true
			}
		}
	}
}

// needs tells of each distance that a spot's is made of.
func (r *Rules) needs(g *Grammar, of spot, tell func(int32)) {
	for _, m := range g.flat[of.p].terms {
		tell(g.spot(m.to, m.when.after(of.n)))
	}
	for _, m := range g.flat[of.p].calls {
		tell(g.spot(m.to, m.when.after(of.n)))
		tell(g.spot(r.rules[m.rule].begin, 0))
	}
}

// after returns the count behind a way.
func (g Guard) after(n int32) int32 {
	if g.Adds {
		n++
	}
	return n
}

// leastFrom returns a place's distance by what is known of others'. What a guard allows at most is no
// matter: no shortest way has more than there have to be.
func (r *Rules) leastFrom(g *Grammar, p Place, n int32) int32 {
	f, least := &g.flat[p], int32(never)
	for _, when := range f.ends {
		if int(n) >= when.Least {
			least = 0
		}
	}
	for _, m := range f.terms {
		if int(n) >= m.when.Least {
			t := &g.terms[m.term]
			least = min(least, t.least(t.start())+g.distance(m.to, m.when.after(n)))
		}
	}
	for _, m := range f.calls {
		if int(n) >= m.when.Least {
			least = min(least, g.distance(r.rules[m.rule].begin, 0)+g.distance(m.to, m.when.after(n)))
		}
	}
	return least
}

// prune drops the moves from which no end can be reached, and names rules by where they begin.
func (g *Grammar) prune(r *Rules) error {
	const most = 1 << 30
	for p := range g.flat {
		f := &g.flat[p]
		terms, calls := f.terms[:0:0], f.calls[:0:0]
		for _, m := range f.terms {
			if g.distance(m.to, most) < never {
				terms = append(terms, m)
			}
		}
		for _, m := range f.calls {
			begin := r.rules[m.rule].begin
			if m.when.Adds && g.distance(begin, 0) == 0 {
				return fmt.Errorf("%s is empty, and repeated more often than can be counted: have it read something each time", r.rules[m.rule].name)
			}
			if g.distance(begin, 0) < never && g.distance(m.to, most) < never {
				calls = append(calls, callMove{Rule(begin), m.to, m.when})
			}
		}
		f.terms, f.calls = terms, calls
	}
	return nil
}

// checkBeginnings finds rules that begin with themselves.
func (r *Rules) checkBeginnings(g *Grammar) error {
	const unseen, open, done = 0, 1, 2
	states := make([]uint8, len(r.rules))
	var visit func(Rule) error
	visit = func(id Rule) error {
		switch states[id] {
		case open:
			return &RecursionError{r.rules[id].name}
		case done:
			return nil
		}
		states[id] = open
		for _, first := range r.firstCalls(g, id) {
			if err := visit(first); err != nil {
				return err
			}
		}
		states[id] = done
		return nil
	}
	for id := range r.rules {
		if err := visit(Rule(id)); err != nil {
			return err
		}
	}
	return nil
}

// firstCalls returns the rules that a rule may begin with.
func (r *Rules) firstCalls(g *Grammar, id Rule) (out []Rule) {
	begin := r.rules[id].begin
	seen, queue, called := map[Place]bool{begin: true}, []Place{begin}, map[Rule]bool{}
	visit := func(p Place) {
		if !seen[p] {
			seen[p] = true
			queue = append(queue, p)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, m := range g.flat[queue[0]].calls {
			if !called[m.rule] {
				called[m.rule] = true
				out = append(out, m.rule)
			}
			if g.distance(r.rules[m.rule].begin, 0) == 0 {
				visit(m.to)
			}
		}
		for _, m := range g.flat[queue[0]].terms {
			if t := &g.terms[m.term]; t.accepts(t.start()) {
				visit(m.to)
			}
		}
	}
	return out
}
