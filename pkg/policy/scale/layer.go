package scale

import (
	"container/heap"
	"fmt"
	"math"
)

// mostReplicas bounds the replicas of a layer, so that no settings make a
// decision endless: some threshold cannot be met, and an expert may be tiny.
const mostReplicas = 1 << 18

// layer is a layer while replicas are added to it.
type layer struct {
	Settings
	experts  []Expert // by id
	replicas []int    // of each expert, R(l,e)
	each     []float64
	heap     []int // experts that may get more, the straggler first
	total    float64
	squares  float64 // of what each replica has, over all replicas, about
	began    float64 // squares before any was added
	count    int     // of all replicas
	added    uint64  // bytes beyond each expert's first replica, M_alloc
}

// newLayer gives every expert one replica (algorithm 1, lines 1 and 2).
func newLayer(experts []Expert, s Settings) *layer {
	n := len(experts)
	l := &layer{Settings: s, experts: byID(experts), replicas: make([]int, n), each: make([]float64, n), heap: make([]int, n), count: n}
	for i, e := range l.experts {
		l.replicas[i], l.each[i], l.heap[i] = 1, e.Load, i
		l.total += e.Load
		l.squares += e.Load * e.Load
	}
	l.began = l.squares
	heap.Init(l)
	return l
}

// add gives the straggler one replica more, which divides its load anew
// (algorithm 1, lines 4 to 6).
func (l *layer) add() {
	e := l.straggler()
	l.replicas[e]++
	l.count++
	l.added += l.experts[e].Bytes
	load := l.experts[e].Load
	l.squares -= load * l.each[e]
	l.each[e] = load / float64(l.replicas[e])
	l.squares += load * l.each[e]
	heap.Fix(l, 0)
}

// straggler is the expert whose replicas have most load, of several the one
// with the lowest id.
func (l *layer) straggler() int { return l.heap[0] }

// full says why the straggler gets no replica more; it is empty if it may.
func (l *layer) full() string {
	e := l.experts[l.straggler()]
	switch n := l.replicas[l.straggler()]; {
	case l.MaxReplicas > 0 && n >= l.MaxReplicas:
		return fmt.Sprintf("expert %d, the straggler, has all of %d replicas that one may have", e.ID, n)
	case e.Bytes > l.MemoryCap-l.added:
		return fmt.Sprintf("the next replica of expert %d, the straggler, takes %d bytes, and %d of the cap's %d are left",
			e.ID, e.Bytes, l.MemoryCap-l.added, l.MemoryCap)
	case l.count >= mostReplicas:
		return fmt.Sprintf("the layer has %d replicas, the most that are decided on", l.count)
	}
	return ""
}

// fill adds replicas to the stragglers among the experts that want more, until
// none does or can have it.
func (l *layer) fill(wants func(expert int) bool) {
	for len(l.heap) > 0 {
		if !wants(l.straggler()) || l.full() != "" {
			heap.Pop(l)
			continue
		}
		l.add()
	}
}

// uneven reports whether the CV is above the threshold. It is counted over all experts only where the sum of squares, whose
// roundings are a share of 2^-53 for each replica added, leaves it open.
func (l *layer) uneven() bool {
	even := l.total * l.total / float64(l.count) // the squares if all had the mean
	if open := 1e-9 * (l.began + even*(1+l.CV*l.CV)); l.squares-even*(1+l.CV*l.CV) > open {
		return true
	}
	return l.cv() > l.CV
}

// cv is the coefficient of variation of the loads of all replicas of the layer
// (population standard deviation by mean): 0 for a layer without load.
func (l *layer) cv() float64 {
	mean := l.total / float64(l.count)
	if mean == 0 {
		return 0
	}
	squares := 0.0
	for i, each := range l.each {
		squares += float64(l.replicas[i]) * (each - mean) * (each - mean)
	}
	return math.Sqrt(squares/float64(l.count)) / mean
}

func (l *layer) decision(reason string) Decision {
	d := Decision{Experts: make([]Scaled, len(l.experts)), CV: l.cv(), AddedBytes: l.added, Reason: reason}
	for i, e := range l.experts {
		d.Experts[i] = Scaled{ID: e.ID, Replicas: l.replicas[i], LoadEach: l.each[i]}
	}
	return d
}

// What package heap asks for; the straggler is first.

func (l *layer) Len() int { return len(l.heap) }

func (l *layer) Less(i, j int) bool {
	a, b := l.heap[i], l.heap[j]
	if l.each[a] != l.each[b] {
		return l.each[a] > l.each[b]
	}
	return a < b
}

func (l *layer) Swap(i, j int) { l.heap[i], l.heap[j] = l.heap[j], l.heap[i] }

// No expert comes back.
func (l *layer) Push(any) {}

func (l *layer) Pop() any {
	last := len(l.heap) - 1
	e := l.heap[last]
	l.heap = l.heap[:last]
	return e
}

// Static is expert parallelism without balancing (§6.1, Megatron-LM): one
// replica of every expert, whatever its load.
func Static(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	return l.decision(fmt.Sprintf("one replica of each expert, whatever its load; CV %.4g", l.cv()))
}

// Reactive gives each expert as many replicas as its load has means of the
// layer, rounded up: what an autoscaler does that compares a load with its
// target (Kubernetes' HPA, ceil(replicas · load / target)), the target being a
// layer in balance with one replica each. It has no threshold. Under the
// memory cap, stragglers go first.
func Reactive(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	mean, before := l.total/float64(len(l.experts)), l.cv()
	l.fill(func(e int) bool {
		// Less a little, so that rounding makes no replica of equal loads.
		return float64(l.replicas[e]) < math.Ceil(l.experts[e].Load/mean-1e-9)
	})
	return l.decision(fmt.Sprintf("%d replicas added in proportion to loads, %.4g rows the mean: CV from %.4g to %.4g",
		l.count-len(l.experts), mean, before, l.cv()))
}

// Oracle is the lower bound of §6.1: the layer in perfect balance, with one
// replica each. It is no decision that can be carried out, for it sets aside
// which experts the gate chose, and with that the model's answer.
func Oracle(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	mean := l.total / float64(len(l.experts))
	for i := range l.each {
		l.each[i] = mean
	}
	return l.decision(fmt.Sprintf("every expert is given the mean, %.4g rows, against the gate's choice", mean))
}

// MoEless is algorithm 1: while the replicas' loads vary by more than the
// threshold, the straggler gets one replica more and its load is divided anew.
//
// Line 3 tests M_alloc < M_cap before a replica is added, which lets the last
// one exceed the cap; here one is added only if it fits. Where the straggler
// gets no more, the others get none either: a layer lasts as long as its
// straggler (§3.3, the maximum of T(l,e,r)), so their replicas would cost
// memory and save no time.
func MoEless(experts []Expert, s Settings) Decision {
	l := newLayer(experts, s)
	before, why := l.cv(), ""
	for l.uneven() {
		if why = l.full(); why != "" {
			break
		}
		l.add()
	}
	return l.decision(l.explain(before, why))
}

func (l *layer) explain(before float64, why string) string {
	now := l.cv()
	text := fmt.Sprintf("CV %.4g is within the threshold %.4g", before, l.CV)
	if n := l.count - len(l.experts); n > 0 {
		text = fmt.Sprintf("%d replicas added: CV from %.4g to %.4g, threshold %.4g", n, before, now, l.CV)
	} else if now > l.CV {
		text = fmt.Sprintf("no replica added: CV %.4g, threshold %.4g", now, l.CV)
	}
	if why != "" {
		text += "; " + why
	}
	return text
}
