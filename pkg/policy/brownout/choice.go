package brownout

import (
	"math"
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
)

// choice is the memory of choosing by loss.
type choice struct {
	least  []float64 // by accesses that are saved: the least loss so far
	next   []float64
	united []int32 // (groups, saved+1): how many members of a group are united
	member []int32 // candidates by group, and by loss within it
	from   []int32 // (groups+1): where a group's candidates begin
}

// keepDearest keeps, of the experts that a full brownout could drop, so many with the largest
// loss.
func (p *Splitter) keepDearest(r Rows, kept int) {
	c := &p.choice
	c.member = c.member[:0]
	for e, f := range p.d.Fate {
		if f == Own || f == Dropped {
			c.member = append(c.member, int32(e))
		}
	}
	byLoss(c.member, r.Loss)
	for i, e := range c.member {
		p.d.Fate[e] = Own
		if i < len(c.member)-kept {
			p.d.Fate[e] = Dropped
		}
	}
}

// choose replaces algorithm 1's S2 by the one of least loss that saves as many accesses. What
// uniting m experts of a group saves is m−1, so groups are tried one after the other, each with
// every number of its cheapest members (a knapsack).
func (p *Splitter) choose(s Settings, r Rows) {
	saved := p.saved()
	if saved == 0 {
		return
	}
	p.candidates(s, r)
	groups := len(p.choice.from) - 1
	p.fill(groups, saved, r.Loss)
	p.take(groups, saved)
}

// saved is how many accesses uniting saves as the fates are.
func (p *Splitter) saved() (n int) {
	for first := 0; first < len(p.d.Fate); first += p.d.Way {
		united := 0
		for at := first; at < min(first+p.d.Way, len(p.d.Fate)); at++ {
			if p.d.at(at) == United {
				united++
			}
		}
		n += max(0, united-1)
	}
	return n
}

// candidates are the experts that may be united, by group.
func (p *Splitter) candidates(s Settings, r Rows) {
	c, n := &p.choice, len(r.Count)
	c.member, c.from = c.member[:0], append(c.from[:0], 0)
	for g, first := 0, 0; first < n; g, first = g+1, first+s.Way {
		begin := len(c.member)
		for at := first; at < min(first+s.Way, n); at++ {
			e := p.d.by.Expert(at)
			f := p.d.Fate[e]
			if f != Idle && f != Visited && (s.Without == nil || !s.Without[g]) {
				c.member = append(c.member, int32(e))
			}
		}
		byLoss(c.member[begin:], r.Loss)
		c.from = append(c.from, int32(len(c.member)))
	}
}

// fill finds the least loss for every number of saved accesses.
func (p *Splitter) fill(groups, saved int, loss []float64) {
	c := &p.choice
	c.least, c.next = reuse.Slice(c.least, saved+1), reuse.Slice(c.next, saved+1)
	c.united = reuse.Slice(c.united, groups*(saved+1))
	for j := range c.least {
		c.least[j] = math.Inf(1)
	}
	c.least[0] = 0
	for g := range groups {
		members, united := c.member[c.from[g]:c.from[g+1]], c.united[g*(saved+1):(g+1)*(saved+1)]
		copy(c.next, c.least)
		clear(united)
		sum := 0.0
		for m, e := range members {
			sum += worth(loss[e])
			for j := m; m > 0 && j <= saved; j++ {
				if all := c.least[j-m] + sum; all < c.next[j] {
					c.next[j], united[j] = all, int32(m+1)
				}
			}
		}
		c.least, c.next = c.next, c.least
	}
}

// take sets the fates of what fill found.
func (p *Splitter) take(groups, saved int) {
	c := &p.choice
	for g, j := groups-1, saved; g >= 0; g-- {
		members, united := c.member[c.from[g]:c.from[g+1]], int(c.united[g*(saved+1)+j])
		for i, e := range members {
			p.d.Fate[e] = Own
			if i < united {
				p.d.Fate[e] = United
			}
		}
		j -= max(0, united-1)
	}
}

// mostLoss stands for every loss that is not a number, or larger: sums of it stay finite.
const mostLoss = 1e100

// worth is a loss that sums can be made of.
func worth(loss float64) float64 {
	if !(loss <= mostLoss) {
		return mostLoss
	}
	return max(0, loss)
}

// byLoss orders experts by loss, the least first; of equal ones the lower expert.
func byLoss(experts []int32, loss []float64) {
	slices.SortFunc(experts, func(a, b int32) int {
		switch x, y := worth(loss[a]), worth(loss[b]); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return int(a - b)
	})
}
