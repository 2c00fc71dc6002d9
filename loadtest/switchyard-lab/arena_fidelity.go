package main

import (
	"fmt"

	"github.com/switchyard/switchyard/loadtest/arena"
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
	// Within reports whether the difference is at most a tenth: yes or no where all of the
	// interval is, else open.
	Within string `json:"within_10_percent"`
}

// tenth is how far the simulator may be off.
const tenth = 0.1

// withinTenth judges an interval.
func withinTenth(low, high float64) string {
	switch {
	case low >= -tenth && high <= tenth:
		return "yes"
	case low > tenth || high < -tenth:
		return "no"
	}
	return "open"
}

// String is a line of the report.
func (f fidelity) String() string {
	return fmt.Sprintf("%-16s %-10s live %8.3f ms, simulated %8.3f; difference %+5.1f %% [%+5.1f, %+5.1f] over %d repeats; within 10 %%: %s\n",
		f.Policy, f.What, f.Live, f.Simulated, 100*f.Difference, 100*f.Low, 100*f.High, f.Repeats, f.Within)
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
	f.Difference, f.Low, f.High = arena.Interval95(off)
	if f.Within = withinTenth(f.Low, f.High); f.Repeats < 2 {
		f.Within = "open"
	}
	return f
}

// liveChange is how much more a policy takes than the first one on the same steps, repeat by
// repeat: as a share, and where that lies with 95 %.
type liveChange struct {
	Policy  string  `json:"policy"`
	Against string  `json:"against"`
	What    string  `json:"what"`
	Repeats int     `json:"repeats"`
	Change  float64 `json:"change"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// String is a line of the report.
func (y liveChange) String() string {
	return fmt.Sprintf("%-16s against %s, %-10s %+6.1f %% [%+6.1f, %+6.1f] over %d repeats\n",
		y.Policy, y.Against, y.What, 100*y.Change, 100*y.Low, 100*y.High, y.Repeats)
}

// compared are the figures by which policies are compared.
var compared = []struct {
	what string
	of   func(*liveLine) float64
}{
	{"layer time", func(l *liveLine) float64 { return l.Mean }},
	{"layer p99", func(l *liveLine) float64 { return l.P99 }},
	{"TTFT", func(l *liveLine) float64 { return l.LiveRequests.TTFT.Mean }},
	{"TPOT", func(l *liveLine) float64 { return l.LiveRequests.TPOT.Mean }},
	{"GB·s", func(l *liveLine) float64 { return l.Resident }},
}

// changesOf are those of all policies but the first.
func changesOf(policies []string, lines []liveLine) (all []liveChange) {
	for _, policy := range policies[1:] {
		for _, m := range compared {
			y := liveChange{Policy: policy, Against: policies[0], What: m.what}
			var more []float64
			for i := range lines {
				for j := range lines {
					if of, to := &lines[i], &lines[j]; of.Policy == policies[0] && to.Policy == policy && of.Repeat == to.Repeat && m.of(of) > 0 {
						more = append(more, m.of(to)/m.of(of)-1)
					}
				}
			}
			if y.Repeats = len(more); y.Repeats > 0 {
				y.Change, y.Low, y.High = arena.Interval95(more)
				all = append(all, y)
			}
		}
	}
	return all
}
