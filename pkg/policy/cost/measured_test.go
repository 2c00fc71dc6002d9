package cost_test

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// The profile of the H200 is what its measurements say, to the digits that it has.
func TestMeasuredProfile(t *testing.T) {
	p, err := profiles.Open("h200-mixtral")
	if err != nil {
		t.Fatal(err)
	}
	measured := cost.ReadMeasured(t, "testdata/h200.csv")
	fit, call, err := cost.Fit(p.Element.Value, measured)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []struct {
		name     string
		has, fit float64
	}{
		{"read_bytes_per_second", p.Read.Value, fit.Bandwidth},
		{"flops_per_second", p.Rate.Value, fit.Rate},
		{"access_seconds", p.Access.Value, fit.Overhead},
		{"call_seconds", p.Call.Value, call},
	} {
		if math.Abs(n.has/n.fit-1) > 0.03 {
			t.Errorf("%s is %.4g in the profile, and %.4g by the fit", n.name, n.has, n.fit)
		}
	}
	of, least := cost.Error(p.Compute(), measured), cost.Error(cost.Device{Timer: fit, Call: call}, measured)
	t.Logf("the profile is %.2f %% off %d measurements (root of the mean square), the fit %.2f %%", 100*of, len(measured), 100*least)
	if of > least+0.005 {
		t.Error("the profile is worse than the fit")
	}
}

// The profile, which others' kernels were fitted for, is near what Switchyard's own take.
func TestProfileOfOwnKernels(t *testing.T) {
	p, err := profiles.Open("h200-mixtral")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range cost.ReadMeasured(t, "testdata/h200-switchyard.csv") {
		off := cost.Error(p.Compute(), []cost.Measurement{m})
		t.Logf("%d rows: %.4g s an expert, the profile is %.1f %% off", m.Rows, m.Seconds/float64(m.Accesses), 100*off)
		if off > 0.14 {
			t.Errorf("the profile is %.1f %% off an expert's %d rows", 100*off, m.Rows)
		}
	}
}
