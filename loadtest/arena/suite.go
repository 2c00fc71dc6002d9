package arena

import (
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/loadtest/sim"
)

// Suite is an evaluation: what is compared, with what, and what the paper claims of it. The
// report is made of it.
type Suite struct {
	// Name is the flag's, Title the report's.
	Name, Title string
	// Policies are all that run; Ours begin the names of those that claims are of.
	Policies func() []sim.Policy
	Ours     string
	// Baselines are what intervals compare with, the strongest among them; Swept are the
	// policies that constants are varied for.
	Baselines, Swept []string
	Measures         []Measure
	Claims           []Stated
}

// Measure is a figure that intervals are of.
type Measure struct {
	What string
	Of   func(*Line) float64
}

// Stated is a change against a baseline that the paper states, as a part of the baseline's.
// One of 0 is not the paper's: it is compared all the same, without a verdict.
type Stated struct {
	Measure
	Against string
	Change  float64
}

// MoEless is the evaluation of MoEless (arXiv:2603.06350, §6.2).
func MoEless() Suite {
	layer := Measure{"layer time", func(l *Line) float64 { return l.Mean }}
	resident := Measure{"cost as resident", func(l *Line) float64 { return l.Resident }}
	billed := Measure{"cost as billed", func(l *Line) float64 { return l.Cost }}
	printed := Measure{"time by the printed formula", func(l *Line) float64 { return l.ByReplica }}
	return Suite{
		Name: "moeless", Title: "MoEless and its baselines", Policies: sim.Policies, Ours: "moeless",
		Baselines: []string{"static", "eplb+", "eplb-full+"},
		Swept:     []string{"static", "eplb+", "eplb-full+", "moeless+", "moeless+lean"},
		Measures: []Measure{
			layer, {"p50 of layers", func(l *Line) float64 { return l.P50 }}, {"p99 of layers", func(l *Line) float64 { return l.P99 }}, resident,
		},
		Claims: []Stated{
			{layer, "static", -0.4319}, {layer, "eplb", -0.2189}, {layer, "oracle", 0},
			{billed, "static", -0.9268}, {billed, "eplb", -0.9511}, {billed, "oracle", -0.8406},
			{resident, "static", 0}, {resident, "eplb", 0},
			{printed, "static", -0.4319}, {printed, "eplb", -0.2189},
		},
	}
}

func (s Suite) names() (names []string) {
	for _, p := range s.Policies() {
		names = append(names, p.Name)
	}
	return names
}

// Claim is a policy beside a baseline.
type Claim struct {
	Part    string  `json:"part"`
	Routing string  `json:"routing"`
	Shape   string  `json:"shape"`
	Policy  string  `json:"policy"`
	What    string  `json:"what"`
	Against string  `json:"against"`
	Change  float64 `json:"change"`          // part of the baseline's
	Paper   float64 `json:"paper,omitempty"` // what the paper has, as the mean of its shapes
	// Over is the change on the short slice over seeds, where seeds were run.
	Over *Range `json:"over_seeds,omitempty"`
	// Verdict is whether the paper's figure is reached; empty where it has none.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Range is where a mean lies with 95 %.
type Range struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Verdict says what became of a claim.
type Verdict string

// The verdicts. Of seeds it is their interval that decides, else the one run.
const (
	Reached Verdict = "reached" // all of the interval is at the paper's figure or beyond it
	Missed  Verdict = "missed"  // none of it
	Open    Verdict = "open"    // some of it
)

func verdict(in Range, stated float64) Verdict {
	switch {
	case stated == 0:
		return ""
	case in.High <= stated:
		return Reached
	case in.Low > stated:
		return Missed
	}
	return Open
}

// conclusions are the claims of our policies, on the whole slice and with other routings.
func (r *Report) conclusions() (all []Claim) {
	for i := range r.Lines {
		l := &r.Lines[i]
		if (l.Part == partMain || l.Part == partRouting) && strings.HasPrefix(l.Policy, r.suite.Ours) {
			all = append(all, r.claims(l)...)
		}
	}
	return all
}

func (r *Report) claims(l *Line) (all []Claim) {
	for _, p := range r.suite.Claims {
		b := find(r.Lines, l.Part, l.Shape, l.Routing, p.Against)
		if b == nil || p.Of(b) <= 0 {
			continue
		}
		c := Claim{
			Part: l.Part, Routing: l.Routing, Shape: l.Shape, Policy: l.Policy, What: p.What, Against: p.Against,
			Change: p.Of(l)/p.Of(b) - 1, Paper: p.Change,
		}
		in := Range{c.Change, c.Change}
		if l.Part == partMain {
			if mean, half, ok := r.overSeeds(l.Shape, l.Policy, p.Against, p.Of); ok {
				in = Range{mean - half, mean + half}
				c.Over = &in
			}
		}
		c.Verdict = verdict(in, p.Change)
		all = append(all, c)
	}
	return all
}

// tally counts verdicts, for people.
func (r *Report) tally() string {
	n := map[Verdict]int{}
	for _, c := range r.Claims {
		n[c.Verdict]++
	}
	return fmt.Sprintf("Of the paper's figures, each for each of our policies, shape and routing, %d are reached, %d are missed, and of %d the interval over seeds does not say.", n[Reached], n[Missed], n[Open])
}
