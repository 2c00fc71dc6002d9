package arena

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim/renting"
)

// RemoeLine is one run of a policy, or of a way to foretell activations.
type RemoeLine struct {
	Suite    string `json:"suite"`
	Part     string `json:"part"`
	Shape    string `json:"shape"`
	Policy   string `json:"policy"`
	Seed     uint64 `json:"seed"`
	Device   string `json:"device"`
	Platform string `json:"platform"`
	Past     int    `json:"past"`
	Requests int    `json:"requests"`
	// What is varied: the objectives as multiples of what MIX takes, the GPU's price by the hosts',
	// processors of an expert's rows (0: all), tokens after the first.
	SLO        float64 `json:"slo_times_mix"`
	Ratio      float64 `json:"price_ratio"`
	Processors float64 `json:"expert_processors"`
	Output     int     `json:"output_tokens"`
	MostTTFT   float64 `json:"slo_ttft_ms"`
	MostTPOT   float64 `json:"slo_tpot_ms"`
	// Cost are dollars of a request, in the mean, and Cold those with what is paid while it starts.
	Cost    float64 `json:"cost"`
	Cold    float64 `json:"cost_cold"`
	Missed  float64 `json:"slo_miss_ratio"`
	Refused float64 `json:"refused_ratio"` // of requests: no plan kept their SLO, and MIX served them
	Plan    float64 `json:"plan_ms"`       // with what is computed for the report
	JS      float64 `json:"js_divergence"` // in bits: of what was foretold
	TTFT50  float64 `json:"ttft_ms_p50"`
	TTFT99  float64 `json:"ttft_ms_p99"`
	TPOT50  float64 `json:"tpot_ms_p50"`
	TPOT99  float64 `json:"tpot_ms_p99"`
	Start   float64 `json:"cold_start_s"`
	Remote  float64 `json:"remote_ratio"` // of experts
	GBs     float64 `json:"cost_gb_s"`
	GPU     float64 `json:"gpu_gb_s"`
	Host    float64 `json:"host_gb_s"`
	// Functions are GB·s of functions, Calls invocations of a request, Splits those that payloads
	// made more, of all requests.
	Functions float64 `json:"function_gb_s"`
	Calls     float64 `json:"invocations"`
	Splits    int     `json:"payload_splits"`
	// SizesGap is how much dearer than the best sizes those that were chosen are, by P2, at most;
	// KKT what its solution is off the conditions of an optimum.
	SizesGap float64 `json:"sizes_gap_ratio"`
	KKT      float64 `json:"kkt_residual"`
	// RoundedGap is SizesGap of what rounding alone gives, as the paper has it.
	RoundedGap float64 `json:"rounded_gap_ratio"`
	// Of predictions: milliseconds to build a store, microseconds to foretell a request.
	Build       float64 `json:"build_ms"`
	Search      float64 `json:"search_us"`
	Temperature float64 `json:"temperature"`
	// Of bounds: in which share of layers they hold, for any experts and for those that are sent away.
	CoveredAny float64 `json:"covered_any_ratio"`
	Covered    float64 `json:"covered_ratio"`
	Scale      float64 `json:"bound_scale"`
}

// RemoeChange is what a policy's requests cost beside a baseline's.
type RemoeChange struct {
	Part       string  `json:"part"`
	Shape      string  `json:"shape"`
	Platform   string  `json:"platform"`
	Policy     string  `json:"policy"`
	Against    string  `json:"against"`
	SLO        float64 `json:"slo_times_mix"`
	Ratio      float64 `json:"price_ratio"`
	Processors float64 `json:"expert_processors"`
	Output     int     `json:"output_tokens"`
	Seeds      int     `json:"seeds"`
	// Change is that of the mean cost, as a part of the baseline's, in the mean of seeds; Low and
	// High are where it lies with 95 % (Student's t), the same as Change with one seed.
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Best   float64 `json:"best_request"` // the least change of a request
	Cold   float64 `json:"cold_start_change"`
}

// RemoeGap is what a request's plan costs above the best of all plans, and where that comes from.
type RemoeGap struct {
	Shape   string  `json:"shape"`
	Seed    uint64  `json:"seed"`
	Request int     `json:"request"`
	SLO     float64 `json:"slo_times_mix"`
	renting.Gap
}

// String is the gap for people.
func (g RemoeGap) String() string {
	return fmt.Sprintf("%-16s seed %d request %d costs %+.2f %% of the best plan: %+.2f by misprediction, %+.2f by the worst case, %+.2f by relaxation, %+.2f by replicas and LPT, %+.2f by selection\n",
		g.Shape, g.Seed, g.Request, 100*g.Whole, 100*g.Prediction, 100*g.WorstCase, 100*g.Relaxation, 100*g.Replicas, 100*g.Selection)
}

// RemoeReport is all that the suite has run.
type RemoeReport struct {
	Seed     uint64        `json:"seed"`
	Platform string        `json:"platform"`
	Lines    []RemoeLine   `json:"lines"`
	Changes  []RemoeChange `json:"changes"`
	Gaps     []RemoeGap    `json:"gaps"`
	Figures  []RemoeFigure `json:"figures"`
	// Of a trace of requests.
	Source        string              `json:"source,omitempty"`
	Streamed      []RemoeStreamLine   `json:"streamed,omitempty"`
	StreamChanges []RemoeStreamChange `json:"stream_changes,omitempty"`

	costs [][]float64 // of each line's requests
}

// remoeCompared are the policies that are compared, and remoeAgainst with what.
var (
	remoeCompared = []string{"remoe", "remoe-printed", "remoe+calibrated", "remoe+joint", "remoe+layers"}
	remoeAgainst  = []string{"cpu", "gpu", "fetch", "mix", "exact"}
)

// compare sets the costs of Remoe beside those of baselines, in the order of lines.
func (r *RemoeReport) compare() {
	type key struct {
		RemoeChange
		seed uint64
	}
	of := func(l *RemoeLine, policy string) key {
		return key{RemoeChange{
			Part: l.Part, Shape: l.Shape, Platform: l.Platform, Policy: policy, SLO: l.SLO, Ratio: l.Ratio, Processors: l.Processors, Output: l.Output,
		}, l.Seed}
	}
	at := map[key]int{}
	for i := range r.Lines {
		if len(r.costs[i]) > 0 {
			at[of(&r.Lines[i], r.Lines[i].Policy)] = i
		}
	}
	changes := map[RemoeChange]*[2][]float64{} // of costs and of cold starts, by seed
	best := map[RemoeChange]float64{}
	var order []RemoeChange
	for i := range r.Lines {
		l := &r.Lines[i]
		if len(r.costs[i]) == 0 || !slices.Contains(remoeCompared, l.Policy) {
			continue
		}
		for _, against := range remoeAgainst {
			b, there := at[of(l, against)]
			if !there {
				continue
			}
			c := of(l, l.Policy).RemoeChange
			c.Against = against
			if changes[c] == nil {
				changes[c], best[c] = &[2][]float64{}, math.Inf(1)
				order = append(order, c)
			}
			to := changes[c]
			to[0], to[1] = append(to[0], l.Cost/r.Lines[b].Cost-1), append(to[1], l.Start/r.Lines[b].Start-1)
			for q, cost := range r.costs[i] {
				best[c] = min(best[c], cost/r.costs[b][q]-1)
			}
		}
	}
	for _, c := range order {
		r.Changes = append(r.Changes, c.over(changes[c], best[c]))
	}
}

// over fills in what seeds gave.
func (c RemoeChange) over(by *[2][]float64, best float64) RemoeChange {
	c.Seeds, c.Best = len(by[0]), best
	c.Change, c.Low, c.High = Interval95(by[0])
	for _, v := range by[1] {
		c.Cold += v / float64(c.Seeds)
	}
	return c
}

// Measured reports whether the line is of a prediction or a bound, and of no policy.
func (l RemoeLine) Measured() bool { return l.Part == partPrediction || l.Part == partCoverage }

// String is such a line for people.
func (l RemoeLine) String() string {
	of := fmt.Sprintf("%-16s seed %d %-10s", l.Shape, l.Seed, l.Policy)
	if l.Part == partCoverage {
		return fmt.Sprintf("%s holds in %.1f %% of layers for any experts, %.1f %% for those that are sent away\n", of, 100*l.CoveredAny, 100*l.Covered)
	}
	return fmt.Sprintf("%s JS divergence %.4f; built in %.0f ms, asked in %.0f µs; temperature %v\n", of, l.JS, l.Build, l.Search, l.Temperature)
}

// String is the comparison for people.
func (c RemoeChange) String() string {
	return fmt.Sprintf("%-16s %-10s SLO %.1f, price %.0f, %2.0f processors, %3d tokens, %-10s: %-16s costs %+6.1f %% of %-5s (%+.1f to %+.1f; best request %+.1f %%), cold start %+.1f %%\n",
		c.Shape, c.Part, c.SLO, c.Ratio, c.Processors, c.Output, c.Platform, c.Policy, 100*c.Change, c.Against, 100*c.Low, 100*c.High, 100*c.Best, 100*c.Cold)
}

// Write writes the report into a folder, which is made: report.json, lines.csv, changes.csv, gaps.csv, streamed.csv,
// stream_changes.csv and report.html.
func (r *RemoeReport) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", asJSON(r)}, {"lines.csv", asCSV(r.Lines)}, {"changes.csv", asCSV(r.Changes)},
		{"gaps.csv", asCSV(r.Gaps)}, {"report.html", r.writePage},
		{"streamed.csv", asCSV(r.Streamed)}, {"stream_changes.csv", asCSV(r.StreamChanges)},
	})
}
