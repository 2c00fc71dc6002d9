package place

import (
	"cmp"
	"container/heap"
	"slices"
)

// queue keeps the hosts that may take replicas, the one with least load first
// (Join the Shortest Queue), of several the one with the lowest id.
type queue struct {
	*fleet
	all   []int  // the hosts that replicas are placed on
	least uint64 // bytes of the smallest expert
	heap  []int
	at    []int // each host's place in the heap, or -1
	// aside are the hosts that are out of the heap for the expert's time.
	aside []int
	// each is how many replicas every host gets; extra hosts get one more.
	each, extra int
}

// newQueue is a queue of hosts without load, open to any number of replicas.
func newQueue(f *fleet, hosts []int, experts []Expert) *queue {
	q := &queue{fleet: f, all: hosts, at: make([]int, len(f.hosts)), each: MostReplicas}
	for h := range q.at {
		q.at[h] = -1
	}
	for i, e := range experts {
		if i == 0 || e.Bytes < q.least {
			q.least = e.Bytes
		}
	}
	for _, h := range hosts {
		heap.Push(q, h)
	}
	return q
}

// placeAll places an expert's replicas: on warm hosts first, then where the
// load is least.
func (q *queue) placeAll(e Expert, warm []int) error {
	q.begin(e)
	rest := e.Replicas - q.reuse(e, warm)
	for ; rest > 0; rest-- {
		h := q.shortest(e)
		if h < 0 {
			h = q.last(e)
		}
		if h < 0 {
			return q.noRoom(e, q.all)
		}
		q.put(e, h)
	}
	q.bringBack()
	return nil
}

// reuse places replicas on hosts that hold the expert from before, the least
// loaded first, as long as its memory fits (algorithm 2, lines 5 and 6).
func (q *queue) reuse(e Expert, warm []int) (placed int) {
	slices.SortFunc(warm, func(a, b int) int { return cmp.Or(cmp.Compare(q.hosts[a].load, q.hosts[b].load), a-b) })
	for _, h := range warm {
		if placed < e.Replicas && q.fits(h, e) && !q.holds(h, e) {
			q.setAside(h)
			q.put(e, h)
			placed++
		}
	}
	return placed
}

// shortest sets hosts aside up to the first that takes the expert; -1 if none
// does. Those that have a replica of it are aside already.
func (q *queue) shortest(e Expert) int {
	for len(q.heap) > 0 {
		h := q.heap[0]
		q.setAside(h)
		if q.open(h) && q.fits(h, e) {
			return h
		}
	}
	return -1
}

// last is for a replica that no host takes that should: it may lie beside
// another of its expert, or else on a host that is closed.
func (q *queue) last(e Expert) int {
	for _, pass := range []func(h int) bool{
		func(h int) bool { return q.fits(h, e) && q.open(h) },
		func(h int) bool { return q.fits(h, e) && !q.holds(h, e) },
		func(h int) bool { return q.fits(h, e) },
	} {
		if h := q.scan(pass); h >= 0 {
			return h
		}
	}
	return -1
}

// scan is the least loaded of all hosts that pass; -1 if none does.
func (q *queue) scan(pass func(h int) bool) int {
	best := -1
	for _, h := range q.all {
		if pass(h) && (best < 0 || q.hosts[h].load < q.hosts[best].load) {
			best = h
		}
	}
	return best
}

// open reports whether a host has fewer replicas than it is to get. One that is
// closed stays closed.
func (q *queue) open(h int) bool {
	n := q.hosts[h].count
	return n < q.each || n == q.each && q.extra > 0
}

func (q *queue) put(e Expert, h int) {
	q.fleet.put(e, h)
	if q.hosts[h].count == q.each+1 {
		q.extra--
	}
}

func (q *queue) setAside(h int) {
	if q.at[h] >= 0 {
		heap.Remove(q, q.at[h])
		q.aside = append(q.aside, h)
	}
}

// bringBack ends an expert's time; hosts that can take nothing more stay out.
func (q *queue) bringBack() {
	for _, h := range q.aside {
		if q.hosts[h].left >= q.least && q.open(h) {
			heap.Push(q, h)
		}
	}
	q.aside = q.aside[:0]
}

// What package heap asks for; the shortest queue is first.

func (q *queue) Len() int { return len(q.heap) }

func (q *queue) Less(i, j int) bool {
	a, b := q.heap[i], q.heap[j]
	if q.hosts[a].load != q.hosts[b].load {
		return q.hosts[a].load < q.hosts[b].load
	}
	return a < b
}

func (q *queue) Swap(i, j int) {
	q.heap[i], q.heap[j] = q.heap[j], q.heap[i]
	q.at[q.heap[i]], q.at[q.heap[j]] = i, j
}

func (q *queue) Push(x any) {
	h, _ := x.(int) // package heap hands on what this package pushes
	q.at[h] = len(q.heap)
	q.heap = append(q.heap, h)
}

func (q *queue) Pop() any {
	last := len(q.heap) - 1
	h := q.heap[last]
	q.heap, q.at[h] = q.heap[:last], -1
	return h
}

// RoundRobin deals replicas out to hosts by their ids, whatever the loads, and
// passes over those that are full (§6.1, the placement of static expert
// parallelism).
func RoundRobin(s State) (Placement, error) {
	f := newFleet(s)
	dealt := 0
	experts := slices.SortedFunc(slices.Values(s.Experts), func(a, b Expert) int { return cmp.Compare(a.ID, b.ID) })
	for _, e := range experts {
		f.begin(e)
		for range e.Replicas {
			h := f.next(dealt, func(h int) bool { return f.fits(h, e) && !f.holds(h, e) })
			if h < 0 {
				h = f.next(dealt, func(h int) bool { return f.fits(h, e) })
			}
			if h < 0 {
				return Placement{}, f.noRoom(e, f.indices())
			}
			f.put(e, h)
			dealt++
		}
	}
	return f.placement(), nil
}

// next is the first host from the one whose turn it is that passes; -1 if none does.
func (f *fleet) next(turn int, pass func(h int) bool) int {
	for i := range f.hosts {
		if h := (turn + i) % len(f.hosts); pass(h) {
			return h
		}
	}
	return -1
}

// EPLB is the packing of DeepSeek's Expert Parallelism Load Balancer
// (github.com/deepseek-ai/EPLB), by its public description: heaviest first, each
// replica goes to the least loaded host, and all hosts get equally many, which
// here may differ by one. It moves what it likes: it does not look at what is
// warm.
//
// Unlike the public one it knows memory, which comes before equal counts, and
// keeps an expert's replicas apart (see Policy).
func EPLB(s State) (Placement, error) {
	f, replicas := newFleet(s), 0
	for _, e := range s.Experts {
		replicas += e.Replicas
	}
	q := newQueue(f, f.indices(), s.Experts)
	if n := len(f.hosts); n > 0 {
		q.each, q.extra = replicas/n, replicas%n
	}
	for _, e := range byLoad(s.Experts) {
		if err := q.placeAll(e, nil); err != nil {
			return Placement{}, err
		}
	}
	return f.placement(), nil
}

// MoEless is algorithm 2: replicas are placed one after the other, most load
// first (line 4). One goes to a host that holds its expert from before, the
// least loaded of several (lines 5 and 6), else to the least loaded of all
// (lines 7 and 8, Join the Shortest Queue); either only where its memory fits
// (§4.3).
//
// As printed, lines 9 and 10 change a host's load while it is in the set that
// the next minimum is taken from: they mean that it is taken out, changed, and
// put back.
func MoEless(s State) (Placement, error) {
	f := newFleet(s)
	q := newQueue(f, f.indices(), s.Experts)
	for _, e := range byLoad(s.Experts) {
		if err := q.placeAll(e, f.warm[e.ID]); err != nil {
			return Placement{}, err
		}
	}
	return f.placement(), nil
}
