package sim

// Source gives a run its iterations, one after the other, so that what an iteration has
// may depend on when the one before it ended.
type Source interface {
	// Next is asked when all iterations before are over, at this time. ok is false at the end.
	Next(now float64) (it Iteration, ok bool)
	// Loads are the routed rows of each expert of a layer in the iteration that Next gave
	// last. They are the run's until the next Next.
	Loads(layer int) []uint32
	// Known are the loads of a layer that policies know before the first iteration: those of
	// the trace's first ten minutes.
	Known(layer int) []float64
}

// startSeconds are how much of the trace a policy's first decision knows.
const startSeconds = 600

// replayed is a workload as a source.
type replayed struct {
	*Workload
	next    int
	due     int // iterations before this one have come
	waiting int // those from next on
}

func (r *replayed) Next(now float64) (it Iteration, ok bool) {
	if r.next == len(r.Iterations) {
		return it, false
	}
	it = r.Iterations[r.next]
	r.next++
	for r.due = max(r.due, r.next); r.due < len(r.Iterations) && r.Iterations[r.due].Due <= now; r.due++ {
		r.waiting++
	}
	it.Waiting = r.waiting
	if r.next < r.due {
		r.waiting--
	}
	return it, true
}

func (r *replayed) Loads(layer int) []uint32 { return r.Workload.Loads(r.next-1, layer) }

func (r *replayed) Known(layer int) []float64 {
	sum := make([]float64, r.Experts)
	for i, it := range r.Iterations {
		if it.Due > startSeconds {
			break
		}
		for x, n := range r.Workload.Loads(i, layer) {
			sum[x] += float64(n)
		}
	}
	return sum
}
