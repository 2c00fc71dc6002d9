package gate

import (
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
)

// readForetold is the error of layer 0 and the rows that it is of.
func readForetold(t *testing.T, r *prometheus.Registry) (off, rows float64) {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "switchyard_foretold_error_ratio":
				off += m.GetGauge().GetValue()
			case "switchyard_foretold_compared_rows_total":
				rows += m.GetCounter().GetValue()
			}
		}
	}
	return off, rows
}

// Rows that come are compared with those that the plan in use foretold: all since this plan, none that come again,
// and none while two plans are in use.
func TestForetold(t *testing.T) {
	r := prometheus.NewRegistry()
	f := foretelling{metrics: telemetry.NewMetrics(r).Foretold}
	to := warmOn(t, nil, [][]uint32{{0}, {1, 2}}, "a", "b")
	step := func(attempt uint32, want, of float64, rows ...int) {
		t.Helper()
		routes := each(rows...)
		routes.Expert = append(routes.Expert, forward.NoExpert)
		h := hidden(len(routes.Expert))
		h.Key.Layer, h.Key.Attempt = 0, attempt
		f.compare(h, routes, to)
		if off, n := readForetold(t, r); math.Abs(off-want) > 1e-9 || n != of {
			t.Errorf("rows %v: the error is %v of %v rows, want %v of %v", rows, off, n, want, of)
		}
	}
	step(0, 0, 0, 1, 1, 1) // nothing is foretold
	to.Targets[0].Foretold, to.Targets[1].Foretold = 100, 300
	step(0, 0.5, 4, 2, 1, 1) // 0.5 and 0.5 for 0.25 and 0.75
	step(1, 0.5, 4, 0, 4, 0)
	step(0, 0, 8, 0, 4, 0)
	to.Plan.Version++
	step(0, 0, 8, 8, 0, 0)
	to.Version = to.Plan.Version
	to.Targets[0].Foretold = 300
	step(0, 1, 12, 0, 2, 2) // 0 and 1 for 0.5 and 0.5
	to.Targets[0].Foretold, to.Targets[1].Foretold = 0, 0
	step(0, 0, 12, 1, 1, 1)
}
