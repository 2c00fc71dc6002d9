package sim

import (
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Result is what a policy took for a workload.
type Result struct {
	Policy string
	// Layers are the seconds of each layer of each iteration, in ascending order,
	// and ByReplica the mean of what the paper's formula gives for them.
	Layers    []float32
	ByReplica float64
	// Iterations are the seconds of each iteration's layers, without what they take beside
	// their experts.
	Iterations []float64
	// Cost is GB·s as the paper bills: a replica costs while its layer runs, or all
	// the time if it is serverful. Resident is all memory all the time it is held.
	Cost, Resident float64
	// Memory is what replicas in memory came to, from which the figures here are.
	Memory meter.Sums
	// Peak is the most memory that was held at once, in GB. What a keep-alive has let go counts
	// until its layer's next turn.
	Peak float64
	// Elapsed is the simulated time of the workload, with what layers take beside
	// their experts and with pauses.
	Elapsed float64
	Tokens  int
	// Rows are the routed rows that hosts have computed.
	Rows int
	// Decisions were made; ColdStarts are replicas that were loaded, and Waits the
	// times that rows had to wait for one.
	Decisions, ColdStarts, Waits int

	replicas  int     // that are wanted or have rows, over all layers run
	mean      float64 // sum of seconds
	byReplica float64 // sum of seconds
	hits      overlap // of predictions
}

func (r *Result) add(seconds, byReplica float64, replicas, rows int) {
	r.Layers = append(r.Layers, float32(seconds))
	r.mean += seconds
	r.Iterations[len(r.Iterations)-1] += seconds
	r.byReplica += byReplica
	r.replicas += replicas
	r.Rows += rows
}

func (r *Result) sort() {
	slices.Sort(r.Layers)
	r.ByReplica = r.byReplica / float64(max(1, len(r.Layers)))
}

// Mean is the mean time of a layer, in seconds.
func (r *Result) Mean() float64 { return r.mean / float64(max(1, len(r.Layers))) }

// Replicas is the mean number of a layer's replicas that are wanted or have rows. Those that
// are only kept in memory do not count.
func (r *Result) Replicas() float64 { return float64(r.replicas) / float64(max(1, len(r.Layers))) }

// Quantile is the time of a layer that this share of them does not exceed.
func (r *Result) Quantile(q float64) float64 {
	return float64(quantile.Of(r.Layers, q))
}

// Accuracy is the share of rows that predictions gave to the right expert; 0
// without predictions.
func (r *Result) Accuracy() float64 { return r.hits.share() }
