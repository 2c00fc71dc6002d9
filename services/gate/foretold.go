package gate

import (
	"slices"

	"github.com/switchyard/switchyard/internal/reuse"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// foretelling compares the rows that come for a layer's functions with those that its plan foretold. One goroutine at
// a time uses it.
type foretelling struct {
	metrics        *telemetry.ForetoldMetrics
	foretold, came []float64 // of each target
}

// compare sets the rows of a message beside those that the plan foretold; where it foretells none, the
// layer has no figures any more. Rows that were lost and come again have been counted; while functions
// of two plans are in use, nothing is.
func (f *foretelling) compare(h *pb.Hidden, routes *forward.Routes, to *plan.Routes) {
	layer, n := int(h.GetKey().GetLayer()), len(to.Targets)
	if !slices.ContainsFunc(to.Targets, func(t plan.Target) bool { return t.GetForetold() > 0 }) {
		f.metrics.Forget(layer)
		return
	}
	if h.GetKey().GetAttempt() > 0 || to.Version != to.Plan.GetVersion() {
		return
	}
	f.foretold, f.came = reuse.Slice(f.foretold, n), reuse.Slice(f.came, n)
	clear(f.came)
	for i, t := range to.Targets {
		f.foretold[i] = t.GetForetold()
	}
	for _, e := range routes.Expert {
		if e != forward.NoExpert && int(e) < to.Experts() {
			f.came[to.Of(e)]++
		}
	}
	f.metrics.Compare(layer, f.foretold, f.came)
}
