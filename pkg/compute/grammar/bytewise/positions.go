package bytewise

import "math"

// positions are the places in an expression, between which characters are read. Repetitions
// that are counted have a counter, which is how often they were gone through before.
type positions struct {
	budget   *Budget
	classes  *partition
	nodes    []position
	counters []counter
	unrolled map[*Expression]bool // repetitions that are not to be counted
	search   bool                 // from match on all is accepted
	match    int32
	err      error // of the budget
}

type position struct {
	free       []jump
	begin, end []int32 // where one can go on at the beginning alone, at the end alone
	reads      []read
	counter    int32 // within which it is; -1: none
}

type read struct {
	classes []int32
	to      int32
}

// jump goes on for nothing.
type jump struct {
	to  int32
	how jumping
}

type jumping uint8

const (
	plainly jumping = iota
	entering
	again
	leaving
)

// counter is a repetition that is counted; most is math.MaxInt32 where there is no bound.
type counter struct {
	of          *Expression
	least, most int32
}

// countFrom is the least count that is worth a counter.
const countFrom = 16

// perNode is what a position counts for in moves that are looked at, perMember one in a set.
const perNode, perMember = 64, 4

func (p *positions) add(counter int32) int32 {
	if p.err == nil {
		p.err = p.budget.takeWork(perNode)
	}
	if p.err != nil && len(p.nodes) > 0 {
		return 0 // the next addition returns the error
	}
	p.nodes = append(p.nodes, position{counter: counter})
	return int32(len(p.nodes) - 1)
}

func (p *positions) jump(from, to int32, how jumping) {
	p.nodes[from].free = append(p.nodes[from].free, jump{to, how})
}

// expression adds an expression behind a place, and returns the place behind it.
func (p *positions) expression(e *Expression, from int32) (int32, error) {
	in := p.nodes[from].counter
	if p.err != nil {
		return from, p.err
	}
	switch e.op {
	case opRunes:
		to := p.add(in)
		p.nodes[from].reads = append(p.nodes[from].reads, read{p.classes.of(e), to})
		return to, p.err
	case opBegin:
		to := p.add(in)
		p.nodes[from].begin = append(p.nodes[from].begin, to)
		return to, p.err
	case opEnd:
		to := p.add(in)
		p.nodes[from].end = append(p.nodes[from].end, to)
		return to, p.err
	case opJoin:
		for _, s := range e.sub {
			var err error
			if from, err = p.expression(s, from); err != nil {
				return from, err
			}
		}
		return from, nil
	case opEither:
		end := p.add(in)
		for _, s := range e.sub {
			begin := p.add(in)
			p.jump(from, begin, plainly)
			to, err := p.expression(s, begin)
			if err != nil {
				return to, err
			}
			p.jump(to, end, plainly)
		}
		return end, p.err
	case opRepeat:
		if p.counts(e, in) {
			return p.counted(e, from)
		}
		return p.repeat(e, from)
	}
	return from, nil
}

// counts reports whether a repetition is counted: it is of many, none is counted around it, and
// each time reads something.
func (p *positions) counts(e *Expression, in int32) bool {
	if in >= 0 || p.unrolled[e] || max(e.least, e.most) < countFrom {
		return false
	}
	least, _ := e.sub[0].lengths()
	return least > 0
}

// counted adds a repetition with a counter.
func (p *positions) counted(e *Expression, from int32) (int32, error) {
	c := counter{e, int32(e.least), math.MaxInt32}
	if e.most >= 0 {
		c.most = int32(e.most)
	}
	n := int32(len(p.counters))
	p.counters = append(p.counters, c)
	begin, end := p.add(n), p.add(p.nodes[from].counter)
	p.jump(from, begin, entering)
	if e.least == 0 {
		p.jump(from, end, plainly)
	}
	last, err := p.expression(e.sub[0], begin)
	p.jump(last, begin, again)
	p.jump(last, end, leaving)
	return end, err
}

// repeat adds a repetition time by time.
func (p *positions) repeat(e *Expression, from int32) (int32, error) {
	var err error
	for range e.least {
		if from, err = p.expression(e.sub[0], from); err != nil {
			return from, err
		}
	}
	in := p.nodes[from].counter
	end := p.add(in)
	p.jump(from, end, plainly)
	if e.most < 0 {
		begin := p.add(in)
		p.jump(from, begin, plainly)
		to, err := p.expression(e.sub[0], begin)
		p.jump(to, begin, plainly)
		p.jump(to, end, plainly)
		if err == nil {
			err = p.err
		}
		return end, err
	}
	for range e.most - e.least {
		begin := p.add(in)
		p.jump(from, begin, plainly)
		if from, err = p.expression(e.sub[0], begin); err != nil {
			return from, err
		}
		p.jump(from, end, plainly)
	}
	return end, p.err
}
