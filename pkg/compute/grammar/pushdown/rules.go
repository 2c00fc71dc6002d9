package pushdown

import (
	"fmt"

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
	rules         []rule
	places        []place
	terms         []*bytewise.DFA
	known         map[*bytewise.DFA]int32
	err           error
}

type rule struct {
	begin, end Place
	name       string
}

type place struct {
	free  []Place
	terms []termMove
	calls []callMove
}

type termMove struct {
	term int32
	to   Place
}

type callMove struct {
	rule Rule
	to   Place
}

// New are no rules yet, for at most so many places and moves.
func New(places, moves int) *Rules {
	return &Rules{Places: places, Moves: moves, known: map[*bytewise.DFA]int32{}}
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
func (r *Rules) Free(from, to Place) { r.places[from].free = append(r.places[from].free, to) }

// Term lets a text of an automaton be between two places.
func (r *Rules) Term(from, to Place, d *bytewise.DFA) {
	n, ok := r.known[d]
	if !ok {
		n = int32(len(r.terms))
		r.terms, r.known[d] = append(r.terms, d), n
	}
	r.places[from].terms = append(r.places[from].terms, termMove{n, to})
}

// Call lets a text of a rule be between two places.
func (r *Rules) Call(from, to Place, what Rule) {
	r.places[from].calls = append(r.places[from].calls, callMove{what, to})
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
	terms []*bytewise.DFA
	bases []int32 // of each terminal's states among all
	of    []int32 // the terminal of a state
	least []int32 // bytes from a place to its rule's end
	flat  []flatPlace
	begin Place
}

// flatPlace has what can be done at a place, free moves followed.
type flatPlace struct {
	terms []termMove
	calls []callMove
	ends  bool // the rule's end
}

// Finish checks the rules and makes them a grammar that begins with one.
func (r *Rules) Finish(begin Rule) (*Grammar, error) {
	if r.err != nil {
		return nil, r.err
	}
	g := &Grammar{terms: r.terms, begin: r.rules[begin].begin}
	for i, t := range r.terms {
		g.bases = append(g.bases, int32(len(g.of)))
		for range t.States() {
			g.of = append(g.of, int32(i))
		}
	}
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
	r.measure(g)
	if err := r.checkBeginnings(g); err != nil {
		return nil, err
	}
	if g.least[g.begin] == never {
		return nil, &EmptyError{r.rules[begin].name}
	}
	g.prune(r)
	return g, nil
}

// flatten follows the free moves of a place.
func (r *Rules) flatten(p Place, ends map[Place]bool) (out flatPlace) {
	seen, queue := map[Place]bool{p: true}, []Place{p}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		out.terms, out.calls = append(out.terms, r.places[at].terms...), append(out.calls, r.places[at].calls...)
		out.ends = out.ends || ends[at]
		if r.Moves -= len(r.places[at].terms) + len(r.places[at].calls) + 1; r.Moves < 0 && r.err == nil {
			r.err = &bytewise.TooLargeError{What: "choices between what may come next"}
		}
		if r.err != nil {
			return out
		}
		for _, to := range r.places[at].free {
			if !seen[to] {
				seen[to] = true
				queue = append(queue, to)
			}
		}
	}
	return out
}

// never is more bytes than any text has.
const never = 1 << 28

// measure finds the least bytes to the ends of rules.
func (r *Rules) measure(g *Grammar) {
	g.least = make([]int32, len(g.flat))
	needed := make([][]Place, len(g.flat)) // the places that need each place's distance
	queue, queued := make([]Place, 0, len(g.flat)), make([]bool, len(g.flat))
	for p := len(g.flat) - 1; p >= 0; p-- {
		g.least[p] = never
		for _, m := range g.flat[p].terms {
			needed[m.to] = append(needed[m.to], Place(p))
		}
		for _, m := range g.flat[p].calls {
			needed[m.to] = append(needed[m.to], Place(p))
			needed[r.rules[m.rule].begin] = append(needed[r.rules[m.rule].begin], Place(p))
		}
		queue, queued[p] = append(queue, Place(p)), true
	}
	for ; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		queued[p] = false
		least := r.leastFrom(g, p)
		if least >= g.least[p] {
			continue
		}
		g.least[p] = least
		for _, by := range needed[p] {
			if !queued[by] {
				queue, queued[by] = append(queue, by), true
			}
		}
	}
}

// leastFrom is a place's distance by what is known of others'.
func (r *Rules) leastFrom(g *Grammar, p Place) int32 {
	f, least := &g.flat[p], int32(never)
	if f.ends {
		least = 0
	}
	for _, m := range f.terms {
		least = min(least, int32(g.terms[m.term].Least(g.terms[m.term].Start))+g.least[m.to])
	}
	for _, m := range f.calls {
		least = min(least, g.least[r.rules[m.rule].begin]+g.least[m.to])
	}
	return least
}

// prune drops the moves from which no end can be reached, and names rules by where they begin.
func (g *Grammar) prune(r *Rules) {
	for p := range g.flat {
		f := &g.flat[p]
		terms, calls := f.terms[:0:0], f.calls[:0:0]
		for _, m := range f.terms {
			if g.least[m.to] < never {
				terms = append(terms, m)
			}
		}
		for _, m := range f.calls {
			if begin := r.rules[m.rule].begin; g.least[begin] < never && g.least[m.to] < never {
				calls = append(calls, callMove{Rule(begin), m.to})
			}
		}
		f.terms, f.calls = terms, calls
	}
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

// firstCalls are the rules that a rule may begin with.
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
			if g.least[r.rules[m.rule].begin] == 0 {
				visit(m.to)
			}
		}
		for _, m := range g.flat[queue[0]].terms {
			if t := g.terms[m.term]; t.Accepts(t.Start) {
				visit(m.to)
			}
		}
	}
	return out
}
