package sim

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// Iteration is one pass through the layers.
type Iteration struct {
	Due  float64 // seconds; it begins then, or when the one before has ended
	Rows int     // tokens
	// Waiting are the requests that have no row in an iteration yet; of a workload that is
	// replayed, the later iterations that are due.
	Waiting int
}

// Workload is what iterations ask of each expert.
type Workload struct {
	routing.Shape
	Iterations []Iteration
	loads      []uint32
}

// mostLoads bounds a workload to 4 GiB.
const mostLoads = 1 << 30

// NewWorkload has iterations without loads, for callers that know these: fill
// what Loads returns.
func NewWorkload(s routing.Shape, its []Iteration) (*Workload, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if n := len(its); n > mostLoads/s.Layers/s.Experts {
		return nil, fmt.Errorf("%d iterations of %d layers with %d experts are more than fits 4 GiB; take a shorter slice of the trace", n, s.Layers, s.Experts)
	}
	return &Workload{Shape: s, Iterations: its, loads: make([]uint32, len(its)*s.Layers*s.Experts)}, nil
}

// Loads are the routed rows of each expert of a layer in an iteration.
func (w *Workload) Loads(iteration, layer int) []uint32 {
	at := (iteration*w.Layers + layer) * w.Experts
	return w.loads[at : at+w.Experts : at+w.Experts]
}

// Tokens are the rows of all iterations.
func (w *Workload) Tokens() (n int) {
	for _, it := range w.Iterations {
		n += it.Rows
	}
	return n
}
