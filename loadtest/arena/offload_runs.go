package arena

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/internal/quantile"
	"github.com/switchyard/switchyard/loadtest/sim/offload"
)

// OffloadRun is what a policy took on the pipeline. Times are milliseconds in the mean of
// requests, hits parts of what was asked for.
type OffloadRun struct {
	Policy  string  `json:"policy"`
	Budget  float64 `json:"budget_gb"`
	Repeat  int     `json:"repeat"` // from 1
	TTFT    float64 `json:"ttft_ms_mean"`
	TPOT    float64 `json:"tpot_ms_mean"`
	Hits    float64 `json:"hit_ratio"`
	Late    float64 `json:"late_ratio"`
	Prefill float64 `json:"hit_ratio_prefill"`
	// Stall are the seconds that dispatches waited for experts, Held the GB·s of experts in memory.
	Stall float64 `json:"stall_s"`
	Held  float64 `json:"cost_resident_gb_s"`
	// Used, Overdue and Wasted are gigabytes of prefetches.
	Used    float64 `json:"prefetched_used_gb"`
	Overdue float64 `json:"prefetched_late_gb"`
	Wasted  float64 `json:"prefetched_wasted_gb"`
	Hints   float64 `json:"hints"`
	// Moved are the gigabytes that all loads moved; Reissued how often rows were sent again.
	Moved float64 `json:"moved_gb"`
	// Load are the seconds of a load, from its begin to its end, in the mean, without what it stood still for more
	// urgent ones.
	Load     float64 `json:"load_s_mean"`
	Reissued float64 `json:"reissued"`
	// Stages are the parts of a layer's time by phase, in milliseconds, with what attention computes before it.
	Stages map[string]map[string]float64 `json:"stages_ms"`
	// Lag are the seconds by which what a gate foretells is at hosts later than its rows, by phase, and Lead those by
	// which what is foretold before the first layer is there sooner than that one's; none: nothing is.
	Lag  map[string]float64 `json:"hint_lag_s,omitempty"`
	Lead map[string]float64 `json:"hint_lead_s,omitempty"`
	// Wait is what a decode step waits for experts, in milliseconds.
	Wait float64 `json:"decode_wait_ms"`
	// Search are the seconds that searches for maps took, Semantic those of a step's by what its rows
	// begin with, Trajectory those of a layer's, in the mean; 0: there were none.
	Search     float64 `json:"search_s"`
	Semantic   float64 `json:"semantic_s_mean"`
	Trajectory float64 `json:"trajectory_s_mean"`
	// Served are the seconds of each request of a trace, from when it was sent to its last token.
	Served []float64 `json:"served_s,omitempty"`
	// LateShare is how many of the paced results the machine had too late.
	LateShare float64 `json:"late_share"`
}

// String is a run for people.
func (r OffloadRun) String() string {
	return fmt.Sprintf("%-13s %3.0f GB  TTFT %7.1f ms, TPOT %6.2f ms; hits %5.1f %%, late %4.1f %%, prefill %5.1f %%; %6.2f GB used, %5.2f late, %5.2f wasted; %7.0f GB·s; %.1f %% of results late\n",
		r.Policy, r.Budget, r.TTFT, r.TPOT, 100*r.Hits, 100*r.Late, 100*r.Prefill, r.Used, r.Overdue, r.Wasted, r.Held, 100*r.LateShare)
}

// OffloadFidelity is how far the simulator is from the pipeline: of times as a part of the
// pipeline's, of hits in points.
type OffloadFidelity struct {
	Policy    string  `json:"policy"`
	Budget    float64 `json:"budget_gb"`
	What      string  `json:"what"`
	Live      float64 `json:"live"`
	Simulated float64 `json:"simulated"`
	Off       float64 `json:"off"`
	Low       float64 `json:"low"`
	High      float64 `json:"high"`
}

// String is for people.
func (f OffloadFidelity) String() string {
	if inPoints(f.What) {
		return fmt.Sprintf("%-13s %3.0f GB  %-4s live %6.1f %%, simulated %6.1f %%: %+.1f points (95 %%: %+.1f to %+.1f)\n",
			f.Policy, f.Budget, f.What, 100*f.Live, 100*f.Simulated, 100*f.Off, 100*f.Low, 100*f.High)
	}
	return fmt.Sprintf("%-13s %3.0f GB  %-4s live %6.2f ms, simulated %6.2f ms: %+.1f %% (95 %%: %+.1f to %+.1f)\n",
		f.Policy, f.Budget, f.What, f.Live, f.Simulated, 100*f.Off, 100*f.Low, 100*f.High)
}

// OffloadLiveReport is all that was measured on the pipeline.
type OffloadLiveReport struct {
	Model    string `json:"model"`
	Profile  string `json:"profile"`
	Hosts    int    `json:"hosts"`
	Requests int    `json:"requests"`
	// Trace is whose requests were served, with their lengths multiplied by Factor; "" is the recording's texts.
	Trace    string            `json:"trace,omitempty"`
	Factor   float64           `json:"factor,omitempty"`
	Budgets  []float64         `json:"budgets_gb"`
	Runs     []OffloadRun      `json:"runs"`
	Told     []OffloadTold     `json:"simulator_told"`
	Changes  []OffloadClaim    `json:"changes"`
	Fidelity []OffloadFidelity `json:"fidelity"`
}

// OffloadTold is what the simulator of a policy was told of its runs, in seconds.
type OffloadTold struct {
	Policy string         `json:"policy"`
	Budget float64        `json:"budget_gb"`
	Beside offload.Beside `json:"beside_s"`
	Delays offload.Delays `json:"delays_s"`
}

// prefillHits are hits of prompts, lateHits experts of answers that were on their way.
const prefillHits, lateHits = "prefill hits", "late"

// inPoints reports whether something is compared by difference.
func inPoints(what string) bool { return what == hits.what || what == prefillHits || what == lateHits }

// measures are what live runs are compared by.
var measures = []struct {
	what string
	of   func(*OffloadRun) float64
	sim  func(*offload.Result) float64
}{
	{ttft.what, func(r *OffloadRun) float64 { return r.TTFT }, func(r *offload.Result) float64 { return r.TTFT() * 1e3 }},
	{tpot.what, func(r *OffloadRun) float64 { return r.TPOT }, func(r *offload.Result) float64 { return r.TPOT() * 1e3 }},
	{hits.what, func(r *OffloadRun) float64 { return r.Hits }, func(r *offload.Result) float64 { return r.Decode.HitRate() }},
	{lateHits, func(r *OffloadRun) float64 { return r.Late }, func(r *offload.Result) float64 { return r.Decode.LateRate() }},
	{prefillHits, func(r *OffloadRun) float64 { return r.Prefill }, func(r *offload.Result) float64 { return r.Prefill.HitRate() }},
	{"wait", func(r *OffloadRun) float64 { return r.Wait }, func(r *offload.Result) float64 { return r.Decode.Stall / float64(max(1, r.Decode.Steps)) * 1e3 }},
	{"served", func(r *OffloadRun) float64 { return 1e3 * average(r.Served) }, func(r *offload.Result) float64 { return r.Request() * 1e3 }},
	{"GB·s", func(r *OffloadRun) float64 { return r.Held }, nil},
}

// runsOf are a policy's with a budget, by repeat. What holds all experts has one budget.
func (r *OffloadLiveReport) runsOf(policy string, budget float64) (all []*OffloadRun) {
	for i := range r.Runs {
		if one := &r.Runs[i]; one.Policy == policy && (one.Budget == budget || one.Budget == 0) {
			all = append(all, one)
		}
	}
	return all
}

func valuesOf(runs []*OffloadRun, of func(*OffloadRun) float64) (values []float64) {
	for _, r := range runs {
		values = append(values, of(r))
	}
	return values
}

// Interval95 is the mean of values, and where it lies with 95 % (Student's t); of one value, that.
func Interval95(values []float64) (mean, low, high float64) {
	mean, half := interval(values)
	return mean, mean - half, mean + half
}

// interval is quantile.Interval95, of no width for one value.
func interval(values []float64) (mean, half float64) {
	if len(values) == 1 {
		return values[0], 0
	}
	return quantile.Interval95(values)
}

// Conclude compares policies with each other, and the simulator with the pipeline.
func (r *OffloadLiveReport) Conclude(p *OffloadPipeline, policies []LiveOffload) error {
	for _, gb := range r.Budgets {
		for _, one := range policies {
			r.compare(one, gb)
			if err := r.simulate(p, one, gb); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare pairs a policy's runs with those of what it is compared with, repeat by repeat.
func (r *OffloadLiveReport) compare(policy LiveOffload, gb float64) {
	ours, theirs := r.runsOf(policy.Name, gb), r.runsOf(policy.Against, gb)
	if len(ours) == 0 || len(ours) != len(theirs) {
		return
	}
	for _, m := range measures {
		var changes []float64
		for i := range ours {
			if b := m.of(theirs[i]); b > 0 {
				changes = append(changes, m.of(ours[i])/b-1)
			}
		}
		if len(changes) < len(ours) {
			continue
		}
		change, low, high := Interval95(changes)
		r.Changes = append(r.Changes, OffloadClaim{
			Shape: r.Model, Routing: "live", Policy: policy.Name, Against: policy.Against, What: m.what, Budget: gb,
			Ours: average(valuesOf(ours, m.of)), Theirs: average(valuesOf(theirs, m.of)), Change: change, Low: low, High: high,
		})
	}
}

// simulate compares the simulator's word of a policy with its runs.
func (r *OffloadLiveReport) simulate(p *OffloadPipeline, policy LiveOffload, gb float64) error {
	runs := r.runsOf(policy.Name, gb)
	if policy.Simulated == nil || policy.Name == liveHeld || len(runs) == 0 {
		return nil
	}
	budget := p.Model.Budget(gb * gigabyte)
	beside, err := p.measured(runs, budget)
	if err != nil {
		return err
	}
	told := OffloadTold{policy.Name, gb, beside, delays(runs)}
	r.Told = append(r.Told, told)
	s, err := p.Simulate(*policy.Simulated, budget, told.Beside, told.Delays)
	if err != nil {
		return fmt.Errorf("simulating %s: %w", policy.Name, err)
	}
	for _, m := range measures {
		if m.sim == nil || average(valuesOf(runs, m.of)) == 0 {
			continue
		}
		said := m.sim(s)
		var off []float64
		for _, v := range valuesOf(runs, m.of) {
			if inPoints(m.what) {
				off = append(off, said-v)
			} else {
				off = append(off, said/max(v, 1e-9)-1)
			}
		}
		mean, low, high := Interval95(off)
		r.Fidelity = append(r.Fidelity, OffloadFidelity{
			Policy: policy.Name, Budget: gb, What: m.what, Live: average(valuesOf(runs, m.of)), Simulated: said, Off: mean, Low: low, High: high,
		})
	}
	return nil
}

// InTurns is the order of policies in a repeat: forwards and backwards in turns, so that what the
// machine does beside them meets all alike.
func InTurns[T any](all []T, repeat int) []T {
	order := slices.Clone(all)
	if repeat%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
