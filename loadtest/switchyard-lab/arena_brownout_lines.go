package main

import (
	"fmt"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/arena"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/policy/brownout"
)

// DimmedLine is a setting on the pipeline, beside the simulator.
type DimmedLine struct {
	Suite     string  `json:"suite"`
	Model     string  `json:"model"`
	Engine    string  `json:"engine"`
	Device    string  `json:"device"`
	Policy    string  `json:"policy"`
	Way       int     `json:"way"`
	Threshold float64 `json:"threshold"`
	Exempt    []int   `json:"exempt,omitempty"`
	Repeats   int     `json:"repeats"`
	Steps     int     `json:"steps"`
	Live      float64 `json:"step_ms"`
	None      float64 `json:"step_ms_without"` // a brownout, in the same runs
	Simulated float64 `json:"simulated_step_ms,omitempty"`
	// Ratio is the throughput by that without a brownout, with half of its 95 % interval; Predicted is what
	// the simulator says.
	Ratio         float64 `json:"throughput_ratio"`
	RatioInterval float64 `json:"throughput_ratio_interval"`
	Predicted     float64 `json:"throughput_ratio_predicted,omitempty"`
	// Difference is live over simulated, less 1, and where that lies with 95 %.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Within     string  `json:"within_10_percent,omitempty"`
	Accesses   float64 `json:"accesses_ratio"` // and of dispatches, in a separate engine
	Late       float64 `json:"late_ratio"`
}

// lines compare the settings that ran.
func (s *dimmedSuite) lines() (all []DimmedLine) {
	for k, of := range dimmed {
		if len(s.runs[k]) == 0 {
			continue
		}
		l := DimmedLine{
			Suite: "brownout", Model: model.DemoName, Engine: s.Engine, Device: s.Device, Policy: of.name, Way: of.way, Threshold: float64(of.threshold) / brownout.One,
			Exempt: s.Exempt, Repeats: len(s.runs[k]),
		}
		if s.Device == "paced" {
			l.Device += ":" + s.profile.Name
		}
		l.fill(s.runs[k], s.Device == "paced")
		all = append(all, l)
	}
	return all
}

// fill compares a setting's steps with those of the same runs without a brownout.
func (l *DimmedLine) fill(runs []dimmedRun, simulated bool) {
	var ratios, predicted, off []float64
	before, after, n := 0, 0, float64(len(runs))
	for _, r := range runs {
		fixed := r.none.seconds - r.none.experts
		l.None, l.Live, l.Simulated = l.None+1e3*r.none.seconds/n, l.Live+1e3*r.dim.seconds/n, l.Simulated+1e3*(fixed+r.dim.experts)/n
		l.Late, l.Steps = l.Late+r.late/n, l.Steps+r.dim.steps
		ratios, predicted = append(ratios, r.none.seconds/r.dim.seconds), append(predicted, r.none.seconds/(fixed+r.dim.experts))
		off = append(off, r.dim.seconds/(fixed+r.dim.experts)-1)
		before, after = before+r.dim.before, after+r.dim.after
	}
	l.Ratio, l.RatioInterval = quantile.Interval95(ratios)
	l.Accesses = float64(after) / float64(max(1, before))
	if !simulated {
		l.Simulated = 0
		return
	}
	l.Predicted, _ = quantile.Interval95(predicted)
	l.Difference, l.Low, l.High = arena.Interval95(off)
	l.Within = withinTenth(l.Low, l.High)
}

// String is a line of the report.
func (l DimmedLine) String() string {
	text := fmt.Sprintf("%-8s %-26s %-10s step %7.2f ms for %7.2f, throughput %.3f ± %.3f times, %.3f of the accesses, %d steps in %d runs", l.Engine, l.Device, l.Policy, l.Live, l.None, l.Ratio, l.RatioInterval, l.Accesses, l.Steps, l.Repeats)
	if l.Within != "" {
		text += fmt.Sprintf("; simulated %7.2f ms, %.3f times; difference %+.1f %% [%+.1f, %+.1f], within 10 %%: %s; %.1f %% late", l.Simulated, l.Predicted, 100*l.Difference, 100*l.Low, 100*l.High, l.Within, 100*l.Late)
	}
	return text + "\n"
}
