package replay

import (
	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/control/ledger"
)

// Line is what a policy took on the pipeline; times are milliseconds.
type Line struct {
	sim.Line
	Steps   int     `json:"steps"`
	Changes int     `json:"plan_changes"`
	Elapsed float64 `json:"elapsed_s"`
	// LateShare is how many of the paced results this machine had too late.
	LateShare float64 `json:"late_share"`
	// Stages are the mean layer's stages by their names.
	Stages map[string]float64 `json:"stages_ms"`
}

// Line sums a run up, for experts of so many bytes. A serverful policy pays for
// all memory all the time.
func (r *Result) Line(shape, policy, device string, expertBytes float64, serverful bool) Line {
	times, cost := r.Times(), r.Cost(expertBytes)
	l := Line{
		Line: sim.Line{
			Shape: shape, Policy: policy, Device: device, Mean: 1e3 * mean(times), P50: 1e3 * quantile.Of(times, 0.5), P99: 1e3 * quantile.Of(times, 0.99),
			Cost: cost.Layers, Resident: cost.Resident, Replicas: r.Replicas(), ColdStarts: int(r.Cold), Tokens: r.Tokens(),
		},
		Steps: len(r.Steps), Changes: len(r.Changes), Elapsed: r.Took.Seconds(), LateShare: r.LateShare,
		Stages: map[string]float64{},
	}
	for stage, seconds := range r.Stages() {
		l.Stages[ledger.Stage(stage).String()] = 1e3 * seconds
	}
	if serverful {
		l.Cost = l.Resident
	}
	return l
}
