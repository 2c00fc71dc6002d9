package residency

import (
	"fmt"

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

// at is where a unit lies in the tables; false is no expert of the model.
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

// Awaited says whether a unit was fetched for a step that has not come to its layer yet.
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
