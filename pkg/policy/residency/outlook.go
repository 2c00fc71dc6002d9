package residency

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/pkg/policy/unit"
)

// Outlook is what orders know of a model's experts that a machine has not seen: how probable
// it is that a step uses one, how far running steps are from its layer, and how often it was
// used. One outlook serves all machines of a model. It is not safe for concurrent use. Who
// changes it tells the machines (Machine.Rerank).
type Outlook struct {
	layers, experts int
	even            float64 // the chance of an expert of which nothing is told
	ageing          float64

	told   map[uint64][]float32 // by sequence: (layers, experts), below 0 where nothing is told
	chance []float32            // the largest that is told
	stale  []bool               // of layers: chance is to be found again
	now    map[uint64]int       // by microbatch: the layer that it is in
	await  []bool               // of experts that were fetched for a step that has not come to them
	visits []float64            // times weight
	steps  float64              // times weight
	weight float64              // of a visit now

	version uint64    // counts changes
	found   []uint64  // of which version uses are
	uses    []float64 // what PerUse has found of units
}

// NewOutlook is of a model whose rows go to topK experts a layer. Ageing is what is left of a
// visit's weight a step later: 1 keeps it for ever.
func NewOutlook(layers, experts, topK int, ageing float64) (*Outlook, error) {
	switch {
	case layers < 1 || experts < 1 || topK < 1 || topK > experts:
		return nil, fmt.Errorf("an outlook is asked for %d layers of %d experts, of which rows use %d; each must be 1 or more, and no more used than there are", layers, experts, topK)
	case !(ageing > 0 && ageing <= 1):
		return nil, fmt.Errorf("an outlook's ageing is %v; it must be above 0, and 1 at most", ageing)
	}
	o := &Outlook{
		layers: layers, experts: experts, even: float64(topK) / float64(experts), ageing: ageing, weight: 1,
		told: map[uint64][]float32{}, now: map[uint64]int{}, stale: make([]bool, layers),
		chance: make([]float32, layers*experts), await: make([]bool, layers*experts), visits: make([]float64, layers*experts),
		version: 1, found: make([]uint64, layers*experts), uses: make([]float64, layers*experts),
	}
	for i := range o.chance {
		o.chance[i] = unknown
	}
	return o, nil
}

// unknown is in place of a chance of which nothing is told.
const unknown = -1

func (o *Outlook) at(u unit.Unit) (int, bool) {
	ok := u.Kind == unit.Routed && u.Layer >= 0 && u.Layer < o.layers && u.Index >= 0 && u.Index < o.experts
	return u.Layer*o.experts + u.Index, ok
}

// Tell says how probable a sequence makes a layer's experts: its newest map's row, which
// stands until another one is told or the sequence ends. A row of other length is passed over.
func (o *Outlook) Tell(sequence uint64, layer int, row []float32) {
	if layer < 0 || layer >= o.layers || len(row) != o.experts {
		return
	}
	t := o.told[sequence]
	if t == nil {
		t = make([]float32, len(o.chance))
		for i := range t {
			t[i] = unknown
		}
		o.told[sequence] = t
	}
	copy(t[layer*o.experts:], row)
	o.stale[layer] = true
	o.version++
}

// End forgets what a sequence was told to do.
func (o *Outlook) End(sequence uint64) {
	o.version++
	delete(o.told, sequence)
	for l := range o.stale {
		o.stale[l] = true
	}
}

// freshen finds a layer's chances again.
func (o *Outlook) freshen(layer int) {
	if !o.stale[layer] {
		return
	}
	o.stale[layer] = false
	from, to := layer*o.experts, (layer+1)*o.experts
	for i := from; i < to; i++ {
		o.chance[i] = unknown
	}
	for _, t := range o.told {
		for i := from; i < to; i++ {
			o.chance[i] = max(o.chance[i], t[i])
		}
	}
}

// Chance is the largest that live sequences give a unit; ok is false where none says.
func (o *Outlook) Chance(u unit.Unit) (p float64, ok bool) {
	i, ok := o.at(u)
	if !ok {
		return 0, false
	}
	o.freshen(u.Layer)
	return float64(o.chance[i]), o.chance[i] >= 0
}

// At says that a microbatch has come to a layer; -1 is before the first. What was awaited
// there is awaited no more.
func (o *Outlook) At(microbatch uint64, layer int) {
	o.version++
	o.now[microbatch] = layer
	if layer >= 0 && layer < o.layers {
		clear(o.await[layer*o.experts : (layer+1)*o.experts])
	}
}

// Over says that a microbatch's step has ended.
func (o *Outlook) Over(microbatch uint64) {
	o.version++
	delete(o.now, microbatch)
}

// Distance is how many layers there are from a step to a layer: the least of those of running
// steps, each of which comes again from the first layer on; with none, from before the first.
func (o *Outlook) Distance(layer int) int {
	least := 0
	for _, now := range o.now {
		d := layer - now
		if d <= 0 {
			d += o.layers
		}
		if least == 0 || d < least {
			least = d
		}
	}
	if least == 0 {
		return layer + 1
	}
	return least
}

// Await says that a unit is fetched for a step that has not come to its layer.
func (o *Outlook) Await(u unit.Unit) {
	if i, ok := o.at(u); ok {
		o.await[i] = true
	}
}

// Awaited reports whether a unit was fetched for a step that has not come to its layer yet.
func (o *Outlook) Awaited(u unit.Unit) bool {
	i, ok := o.at(u)
	return ok && o.await[i]
}

// Step says that one more step has begun: older visits weigh less from now on.
func (o *Outlook) Step() {
	if o.weight /= o.ageing; o.weight > heaviest {
		for i := range o.visits {
			o.visits[i] /= o.weight
		}
		o.steps /= o.weight
		o.weight = 1
	}
	o.steps += o.weight
	o.version++
}

// heaviest is the weight beyond which all are made smaller.
const heaviest = 1 << 40

// Visit says that a step uses a unit. Visits outlast evictions.
func (o *Outlook) Visit(u unit.Unit) {
	if i, ok := o.at(u); ok {
		o.visits[i] += o.weight
		o.version++
	}
}

// Frequency is 1 and the unit's visits.
func (o *Outlook) Frequency(u unit.Unit) float64 {
	if i, ok := o.at(u); ok {
		return 1 + o.visits[i]/o.weight
	}
	return 1
}

// Rate is in which part of steps a unit is used: that of its visits, and as if it had been
// used in few as often as any expert.
func (o *Outlook) Rate(u unit.Unit) float64 {
	i, ok := o.at(u)
	if !ok {
		return o.even
	}
	return min(1, (o.visits[i]/o.weight+few*o.even)/(o.steps/o.weight+few))
}

// few are the steps that weigh as much as knowing nothing.
const few = 4

// PerUse is for how many layers a unit is held for each use that it gets, as expected, if it is given up where that is
// best: unless it is used, when a step comes to its layer for the first time, or not before it is used. A step uses it
// with its chance that first time, and later with its rate. (Of what comes with a constant chance no other moment is
// better: Gittins' index.)
func (o *Outlook) PerUse(u unit.Unit) float64 {
	i, ok := o.at(u)
	if !ok {
		return float64(o.layers) / o.even
	}
	if o.found[i] != o.version {
		rate := o.Rate(u)
		p, ok := o.Chance(u)
		if !ok {
			p = rate
		}
		first := float64(o.Distance(u.Layer))
		o.found[i], o.uses[i] = o.version, min(first/p, first+(1-p)*float64(o.layers)/rate)
	}
	return o.uses[i]
}

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

// named are the orders that an operator can name. Belady's is none of them: it knows what comes.
var named = []struct {
	name    string
	outlook bool // it goes by one
	of      func(*Outlook) Order
}{
	{"lru", false, func(*Outlook) Order { return LRU{} }},
	{"lfu", true, func(o *Outlook) Order { return LFU{Outlook: o} }},
	{"fmoe", true, func(o *Outlook) Order { return FMoE{o} }},
	{"next-use", true, func(o *Outlook) Order { return NextUse{Outlook: o} }},
}

// Names are the orders that Named knows.
func Names() (names []string) {
	for _, one := range named {
		names = append(names, one.name)
	}
	return names
}

// NeedsOutlook reports whether the order of a name goes by an outlook.
func NeedsOutlook(name string) bool {
	for _, one := range named {
		if one.name == name {
			return one.outlook
		}
	}
	return false
}

// Named is the order of a name; o is what it goes by, if it needs that. The error says which names there are.
func Named(name string, o *Outlook) (Order, error) {
	for _, one := range named {
		if one.name == name {
			return one.of(o), nil
		}
	}
	return nil, fmt.Errorf("there is no order of eviction %q; there is %s", name, strings.Join(Names(), ", "))
}

// Order is how a policy ranks units. It may know more of them than an Item says; when
// what it knows changes, Machine.Rerank makes it count. Items are read only.
type Order interface {
	// EvictFirst is negative if a is evicted before b.
	EvictFirst(a, b *Item) int
	// FetchFirst is negative if a is fetched before b, which is as urgent.
	FetchFirst(a, b *Item) int
	// Yields reports whether an unused unit may be evicted for a wanted one.
	Yields(idle, to *Item) bool
}

// LRU evicts what has not been used for the longest, and fetches by priority, then in
// the order of wants.
type LRU struct{}

var _ Order = LRU{}

// EvictFirst is the earlier use.
func (LRU) EvictFirst(a, b *Item) int { return cmp.Compare(a.Used, b.Used) }

// FetchFirst is the higher priority, then the earlier want.
func (LRU) FetchFirst(a, b *Item) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Wanted, b.Wanted))
}

// Yields is true: each unit may go.
func (LRU) Yields(_, _ *Item) bool { return true }

// Newest evicts as LRU does, and fetches by priority, then what was wanted last.
type Newest struct{ LRU }

var _ Order = Newest{}

// FetchFirst is the higher priority, then the later want.
func (Newest) FetchFirst(a, b *Item) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.Wanted, a.Wanted))
}

// LFU evicts what was used least often, evictions notwithstanding, as MoE-Infinity does, and
// fetches as LRU does.
type LFU struct {
	LRU
	*Outlook
}

var _ Order = LFU{}

// EvictFirst is the one with fewer visits.
func (f LFU) EvictFirst(a, b *Item) int {
	return cmp.Compare(f.Frequency(a.Unit), f.Frequency(b.Unit))
}
