package arena

import (
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim/offload"
	"github.com/switchyard/switchyard/pkg/serverless/routing"
)

// OffloadLine is what a policy took; times are milliseconds of a step, hits parts of what was
// demanded.
type OffloadLine struct {
	Part    string  `json:"part"`
	Shape   string  `json:"shape"`
	Routing string  `json:"routing"`
	Policy  string  `json:"policy"`
	Budget  float64 `json:"budget_gb"`
	// Value is the distance, capacity or batch where that is varied, or what Constant is
	// multiplied with.
	Value    float64 `json:"value,omitempty"`
	Constant string  `json:"constant,omitempty"`
	Seed     uint64  `json:"seed"`
	// Fits says that the budget holds all experts.
	Fits    bool    `json:"fits"`
	TTFT    float64 `json:"ttft_ms"`
	TPOT    float64 `json:"tpot_ms"`
	Hits    float64 `json:"hits"`
	Late    float64 `json:"late"`
	Prefill float64 `json:"hits_prefill"`
	// Recall is which part of the experts that rows used was predicted in time.
	Recall float64 `json:"recall"`
	// Stall are those of a decode step that it takes because experts are not there.
	Stall float64 `json:"stall_ms"`
	// Floor is what Belady's loads take of the busiest link in a decode step, and nothing else.
	Floor float64 `json:"floor_ms"`
	// Loads are the megabytes that links move in a decode step.
	Loads float64 `json:"moved_mb"`
	// Used, Overdue and Wasted are gigabytes of prefetches in the whole run.
	Used       float64 `json:"prefetched_used_gb"`
	Overdue    float64 `json:"prefetched_late_gb"`
	Wasted     float64 `json:"prefetched_wasted_gb"`
	Semantic   float64 `json:"similarity_semantic,omitempty"`
	Trajectory float64 `json:"similarity_trajectory,omitempty"`
	// Pearson is the correlation of a map's score and of how right it is.
	Pearson         float64 `json:"pearson,omitempty"`
	PearsonSemantic float64 `json:"pearson_semantic,omitempty"`
	// Links are the milliseconds of a decode step that a link moves, in the mean of all, Predicting
	// those that predictions for all of its layers take, one after the other.
	Links      float64 `json:"links_ms"`
	Predicting float64 `json:"predicting_ms"`
	// Loaded are the experts that links moved in the whole run.
	Loaded int `json:"loads"`
}

func offloadLine(r *offload.Result, f *offload.Foresight) OffloadLine {
	d := &r.Decode
	demands := float64(max(1, d.Hits+d.Late+d.Misses))
	steps := float64(max(1, d.Steps))
	return OffloadLine{
		TTFT: r.TTFT() * 1e3, TPOT: r.TPOT() * 1e3, Hits: d.HitRate(), Late: float64(d.Late) / demands, Prefill: r.Prefill.HitRate(), Recall: f.Recall,
		Loaded: d.Loads + d.Fetches + r.Prefill.Loads + r.Prefill.Fetches,
		Stall:  d.Stall / steps * 1e3, Loads: d.Total() / steps / 1e6, Used: r.Used / gigabyte, Overdue: r.Overdue / gigabyte, Wasted: r.Wasted / gigabyte,
	}
}

// OffloadReport is all that was compared.
type OffloadReport struct {
	Budgets   []float64           `json:"budgets_gb"`
	Middle    float64             `json:"middle_gb"`
	Seed      uint64              `json:"seed"`
	Seeds     int                 `json:"seeds"`
	Distance  int                 `json:"distance"`
	Capacity  int                 `json:"capacity"`
	Texts     offload.Texts       `json:"texts"`
	Routing   string              `json:"routing"`
	Params    routing.StateParams `json:"routing_params"`
	Claims    []OffloadClaim      `json:"claims"`
	Bounds    []OffloadBound      `json:"prefetching"`
	Gaps      []OffloadGap        `json:"gaps"`
	Lines     []OffloadLine       `json:"lines"`
	Entropies []OffloadEntropy    `json:"entropies"`
	Pictures  []*OffloadPicture   `json:"pictures"`
	Online    []OnlineServed      `json:"online,omitempty"`
	// Factor is what the lengths of live requests were multiplied with; 0: nothing is live.
	Factor  float64 `json:"factor,omitempty"`
	Seconds float64 `json:"seconds"`
}

// OffloadClaim is a policy beside a baseline of the paper.
type OffloadClaim struct {
	Shape   string  `json:"shape"`
	Routing string  `json:"routing"`
	Policy  string  `json:"policy"`
	Against string  `json:"against"`
	What    string  `json:"what"`
	Budget  float64 `json:"budget_gb"`
	Ours    float64 `json:"value"`
	Theirs  float64 `json:"baseline"`
	// Change is the mean over seeds of what the policy's differs, as a part of the baseline's.
	Change float64 `json:"change"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Paper  float64 `json:"paper"`
}

// stated is what the paper claims of fMoE against each baseline, in the mean of its models.
type stated struct {
	what    string
	of      func(*OffloadLine) float64
	changes [4]float64
}

// against are the paper's baselines in the order of its claims (section 6.2).
var paperBaselines = [4]string{offload.OnDemand, "mixtral-offloading", "promoe", "moe-infinity"}

var (
	ttft = stated{"TTFT", func(l *OffloadLine) float64 { return l.TTFT }, [4]float64{-0.44, -0.35, -0.33, -0.30}}
	tpot = stated{"TPOT", func(l *OffloadLine) float64 { return l.TPOT }, [4]float64{-0.70, -0.61, -0.55, -0.48}}
	hits = stated{"hits", func(l *OffloadLine) float64 { return l.Hits }, [4]float64{1.47, 0.11, 0.34, 0.63}}
	// cramped is what it claims of 6 GB (section 6.4).
	cramped = stated{"TPOT", tpot.of, [4]float64{-0.32, -0.24, -0.18, -0.18}}
)

// OffloadBound says how much slower steps are for prefetching: by budget where nothing can be foretold, and by
// how many sequences are served together.
type OffloadBound struct {
	Shape    string  `json:"shape"`
	Routing  string  `json:"routing"`
	Batch    float64 `json:"batch"`
	Budget   float64 `json:"budget_gb"`
	Policy   string  `json:"policy"`
	Against  string  `json:"against"`
	Times    float64 `json:"times"` // of TPOT
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Wasted   float64 `json:"wasted_gb"`
	Unneeded float64 `json:"moved_times"` // bytes that links moved
}

// OffloadGap is how much of the gap from the best baseline to the limit a policy closes.
type OffloadGap struct {
	Shape    string  `json:"shape"`
	Routing  string  `json:"routing"`
	Budget   float64 `json:"budget_gb"`
	Policy   string  `json:"policy"`
	Best     string  `json:"best_baseline"`
	BestTPOT float64 `json:"best_baseline_ms"`
	TPOT     float64 `json:"tpot_ms"`
	Limit    float64 `json:"limit_ms"`
	Floor    float64 `json:"floor_ms"`
	Closed   float64 `json:"closed"`
}

// key tells lines of all seeds together.
type offloadKey struct {
	part, shape, routing, policy string
	budget, value                float64
}

// of are a policy's lines in the order of seeds.
func (r *OffloadReport) of(k offloadKey) (lines []*OffloadLine) {
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.Part == k.part && l.Shape == k.shape && l.Routing == k.routing && l.Policy == k.policy && l.Budget == k.budget && l.Value == k.value {
			lines = append(lines, l)
		}
	}
	return lines
}

func meanOf(lines []*OffloadLine, of func(*OffloadLine) float64) (m float64) {
	for _, l := range lines {
		m += of(l) / float64(len(lines))
	}
	return m
}

// change is that of two policies, paired by seed: as a part of the second's.
func change(ours, theirs []*OffloadLine, of func(*OffloadLine) float64) (mean, half float64, ok bool) {
	if len(ours) == 0 || len(ours) != len(theirs) {
		return 0, 0, false
	}
	changes := make([]float64, len(ours))
	for i := range ours {
		b := of(theirs[i])
		if b == 0 {
			return 0, 0, false
		}
		changes[i] = of(ours[i])/b - 1
	}
	mean, half = interval(changes)
	return mean, half, true
}

// String is a claim for people.
func (c OffloadClaim) String() string {
	return fmt.Sprintf("%-14s %-13s %3.0f GB  %-7s %-5s against %-19s %+7.1f %% (95 %%: %+.1f to %+.1f; the paper %+.0f)\n",
		c.Shape, c.Routing, c.Budget, c.Policy, c.What, c.Against, 100*c.Change, 100*c.Low, 100*c.High, 100*c.Paper)
}

// OffloadSummary is what a policy took with a budget, in the mean of seeds, as the commands of all
// suites print it.
type OffloadSummary struct {
	Shape   string  `json:"shape"`
	Routing string  `json:"routing"`
	Policy  string  `json:"policy"`
	Device  string  `json:"device"`
	Budget  float64 `json:"budget_gb"`
	Hits    float64 `json:"hit_ratio"`
	Loads   float64 `json:"loads"`
	TPOT    float64 `json:"tpot_ms_mean"`
	TTFT    float64 `json:"ttft_ms_mean"`
	Floor   float64 `json:"floor_tpot_ms"`
	Seeds   int     `json:"seeds"`
}

// Summary is of the part with all policies and budgets.
func (r *OffloadReport) Summary() (all []OffloadSummary) {
	done := map[offloadKey]bool{}
	for _, l := range r.Lines {
		key := offloadKey{l.Part, l.Shape, l.Routing, l.Policy, l.Budget, l.Value}
		if l.Part != partBudget || done[key] {
			continue
		}
		done[key] = true
		of := r.of(key)
		all = append(all, OffloadSummary{
			Shape: l.Shape, Routing: l.Routing, Policy: l.Policy, Device: "simulated", Budget: l.Budget, Seeds: len(of),
			Hits: meanOf(of, hits.of), Loads: meanOf(of, func(l *OffloadLine) float64 { return float64(l.Loaded) }),
			TPOT: meanOf(of, tpot.of), TTFT: meanOf(of, ttft.of), Floor: meanOf(of, func(l *OffloadLine) float64 { return l.Floor }),
		})
	}
	return all
}
