package residency

import (
	"cmp"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// FMoE is the order of the paper (arXiv:2502.05370, section 4.5): it evicts the largest
// 1/(p·freq), and fetches the largest p/(l - l_now). p is the largest of what live sequences'
// newest maps say, and 1/J where none says anything.
type FMoE struct{ *Outlook }

var _ Order = FMoE{}

func (f FMoE) p(u unit.Unit) float64 {
	if p, ok := f.Chance(u); ok {
		return p
	}
	return 1 / float64(f.experts)
}

// EvictFirst is the one of which p·freq is smaller.
func (f FMoE) EvictFirst(a, b *Item) int {
	return cmp.Compare(f.p(a.Unit)*f.Frequency(a.Unit), f.p(b.Unit)*f.Frequency(b.Unit))
}

// FetchFirst is the one with the higher p/(l - l_now), which changes with l_now.
func (f FMoE) FetchFirst(a, b *Item) int {
	return cmp.Compare(f.p(b.Unit)/float64(f.Distance(b.Unit.Layer)), f.p(a.Unit)/float64(f.Distance(a.Unit.Layer)))
}

// Yields keeps what was fetched ahead, and is not due yet, from other prefetches.
func (f FMoE) Yields(idle, to *Item) bool { return to.Urgency > Hinted || !f.Awaited(idle.Unit) }

// NextUse evicts what has to be held longest for a use, as expected, and fetches ahead only what is used for less than
// what goes for it.
type NextUse struct {
	*Outlook
	// Least is the chance from which on something goes for a prefetch. Above 0 is for hosts whose link others use as
	// well, where a prefetch that is not used costs them time.
	Least float64
}

var _ Order = NextUse{}

// EvictFirst is the one that is held for longer.
func (n NextUse) EvictFirst(a, b *Item) int {
	return cmp.Compare(n.PerUse(b.Unit), n.PerUse(a.Unit))
}

// FetchFirst is the one with the higher chance, where four layers more make a near one half of what it is: what rows
// wait for goes before all of them, so that what is due soon need not. Of experts that are nearly as probable, as those
// of batches are, the nearer goes first.
func (n NextUse) FetchFirst(a, b *Item) int {
	of := func(i *Item) float64 {
		p, _ := n.Chance(i.Unit)
		return p / float64(calm+n.Distance(i.Unit.Layer))
	}
	return cmp.Compare(of(b), of(a))
}

// calm is how many layers are added to those that chances are divided by. It was chosen by simulation.
const calm = 4

// Yields compares what both are held for.
func (n NextUse) Yields(idle, to *Item) bool {
	if to.Urgency > Hinted {
		return true
	}
	p, _ := n.Chance(to.Unit)
	return p >= n.Least && n.PerUse(idle.Unit) > n.PerUse(to.Unit)
}

// Belady knows when each unit is used next, and evicts what is used last: with units of one
// size no order loads less (Belady, 1966). Only simulated hosts know that.
type Belady struct {
	// Next is when a unit is used next; what is not used any more is used last.
	Next func(unit.Unit) int
}

var _ Order = Belady{}

// EvictFirst is the one with the later use.
func (b Belady) EvictFirst(x, y *Item) int { return cmp.Compare(b.Next(y.Unit), b.Next(x.Unit)) }

// FetchFirst is the one with the sooner use.
func (b Belady) FetchFirst(x, y *Item) int { return cmp.Compare(b.Next(x.Unit), b.Next(y.Unit)) }

// Yields lets go for a prefetch only what is used later.
func (b Belady) Yields(idle, to *Item) bool {
	return to.Urgency > Hinted || b.Next(idle.Unit) > b.Next(to.Unit)
}
