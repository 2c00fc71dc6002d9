package main

import (
	"fmt"

	"github.com/switchyard/switchyard/services/switchyard/arena"
)

// fidelity is how far what was simulated of a policy's runs is from what they took, over
// repeats. Times are the means of runs, in milliseconds.
type fidelity struct {
	Policy    string  `json:"policy"`
	What      string  `json:"what"`
	Repeats   int     `json:"repeats"`
	Live      float64 `json:"live_ms"`
	Simulated float64 `json:"simulated_ms"`
	// Difference is live over simulated, less 1: its mean, and where that lies with 95 %
	// (Student's t over repeats); of one repeat it is that run's alone.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// String is a line of the report.
func (f fidelity) String() string {
	return fmt.Sprintf("%-10s %-10s live %8.3f ms, simulated %8.3f; difference %+5.1f %% [%+5.1f, %+5.1f] over %d repeats\n",
		f.Policy, f.What, f.Live, f.Simulated, 100*f.Difference, 100*f.Low, 100*f.High, f.Repeats)
}

// likened are the figures that runs and the simulator both have.
var likened = []struct {
	what            string
	live, simulated func(*liveLine) float64
}{
	{"layer time", func(l *liveLine) float64 { return l.Mean }, func(l *liveLine) float64 { return l.Sim + l.Messages }},
	{"TTFT", func(l *liveLine) float64 { return l.LiveRequests.TTFT.Mean }, func(l *liveLine) float64 { return l.SimRequests.TTFT.Mean }},
	{"TPOT", func(l *liveLine) float64 { return l.LiveRequests.TPOT.Mean }, func(l *liveLine) float64 { return l.SimRequests.TPOT.Mean }},
}

// fidelities are those of all policies.
func fidelities(policies []string, lines []liveLine) (all []fidelity) {
	for _, policy := range policies {
		for _, of := range likened {
			f := fidelity{Policy: policy, What: of.what}
			var off []float64
			for i := range lines {
				if l := &lines[i]; l.Policy == policy && of.simulated(l) > 0 {
					f.Live, f.Simulated = f.Live+of.live(l), f.Simulated+of.simulated(l)
					off = append(off, of.live(l)/of.simulated(l)-1)
				}
			}
			all = append(all, f.over(off))
		}
	}
	return all
}

// over is the mean over repeats.
func (f fidelity) over(off []float64) fidelity {
	f.Repeats = len(off)
	if f.Repeats == 0 {
		return f
	}
	f.Live, f.Simulated = f.Live/float64(f.Repeats), f.Simulated/float64(f.Repeats)
	half := 0.0
	if f.Difference = off[0]; f.Repeats > 1 {
		f.Difference, half = arena.Interval95(off)
	}
	f.Low, f.High = f.Difference-half, f.Difference+half
	return f
}
