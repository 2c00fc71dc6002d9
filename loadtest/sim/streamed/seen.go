package streamed

import (
	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Before is what is known before a run.
type Before struct {
	System *serverless.System
	Tape   *requests.Tape
	Past   []trace.Request
	// Coming are the run's requests: only what plans in hindsight looks at them.
	Coming []trace.Request
}

// Seen is what a policy has seen since it decided last.
type Seen struct {
	Tape    *requests.Tape
	Loads   []float64 // rows of batches by layer and expert, as gates count them
	Batches int
	Seconds float64
	Coming  []trace.Request

	kinds      [2]kind
	told, come int // requests that the policy knows, and that have come
	from       float64
}

func newSeen(t *requests.Tape, rs []trace.Request) Seen {
	n := t.Layers * t.Experts
	s := Seen{Tape: t, Coming: rs, Loads: make([]float64, n)}
	s.kinds[0].loads, s.kinds[1].loads = make([]float64, n), make([]float64, n)
	return s
}

func (s *Seen) add(b requests.Batch) {
	k := &s.kinds[min(1, b.Prompts)]
	for i, n := range b.Loads {
		s.Loads[i] += float64(n)
		k.loads[i] += float64(n)
	}
	k.n++
	k.rows += float64(b.Rows)
	s.Batches++
}

// clear forgets what was seen up to a time.
func (s *Seen) clear(now float64) {
	s.told, s.from, s.Batches = s.come, now, 0
	clear(s.Loads)
	for i := range s.kinds {
		k := &s.kinds[i]
		k.n, k.rows = 0, 0
		clear(k.loads)
	}
}

// Arrived are the requests that have come, with the number of the first.
func (s *Seen) Arrived() (first int, rs []trace.Request) { return s.told, s.Coming[s.told:s.come] }

// shares are loads as an activation: each layer's sum to 1. It is nil where a layer has none.
func shares(loads []float64, experts int) []float32 {
	a := make([]float32, len(loads))
	for l := 0; l < len(loads); l += experts {
		sum := 0.0
		for _, n := range loads[l : l+experts] {
			sum += n
		}
		if sum == 0 {
			return nil
		}
		for e, n := range loads[l : l+experts] {
			a[l+e] = float32(n / sum)
		}
	}
	return a
}

// own is what a request's prompt chooses.
func own(t *requests.Tape, id int, q trace.Request) []float32 {
	counts := make([]uint32, t.Layers*t.Experts)
	t.Reader(id, q).Add(counts, 0, max(1, q.Context))
	loads := make([]float64, len(counts))
	for i, n := range counts {
		loads[i] = float64(n)
	}
	return shares(loads, t.Experts)
}
