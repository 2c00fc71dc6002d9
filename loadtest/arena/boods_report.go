package arena

import (
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
)

// BOODSLine is a deployment, or a way to foretell rows or to tune a table.
type BOODSLine struct {
	Suite    string `json:"suite"`
	Part     string `json:"part"`
	Shape    string `json:"shape"`
	Policy   string `json:"policy"`
	Seed     uint64 `json:"seed"`
	Text     string `json:"text"`
	Device   string `json:"device"`
	Platform string `json:"platform"`
	Tokens   int    `json:"tokens"` // of a batch
	TopK     int    `json:"top_k"`
	// Cost are dollars of memory for a batch, in the mean, and Requests those of invocations and of the store.
	Cost       float64 `json:"cost"`
	Functions  float64 `json:"cost_functions"` // of Remoe: without its host and GPU
	Requests   float64 `json:"cost_requests"`
	GBs        float64 `json:"gb_s"`
	Throughput float64 `json:"throughput_tokens_per_s"`
	Latency    float64 `json:"latency_seconds"`
	Limit      float64 `json:"limit_seconds"`
	Times      float64 `json:"limit_times_least"`
	Share      float64 `json:"limit_share"` // of the limit, for foretold rows: 0 for all of it
	Feasible   bool    `json:"feasible"`
	Error      float64 `json:"prediction_error"` // mean |real - foretold| by the mean load
	Difference float64 `json:"difference_rows"`  // the same in rows of an expert
	Plan       float64 `json:"plan_ms"`
	Gap        float64 `json:"gap_ratio"` // above what no plan costs less than
	Modes      string  `json:"modes"`
	Mended     int     `json:"mended"` // functions that had more replicas than planned
	Transfers  float64 `json:"transfer_seconds"`
	// Of searches: rounds, seconds of one, the first with every ε below 0.01, and theorem 2's.
	Rounds       int     `json:"rounds"`
	RoundSeconds float64 `json:"round_seconds"`
	Below        int     `json:"rounds_below_delta"`
	Theorem      float64 `json:"theorem_2_rounds"`
	// LearntRatio is the cost by that without a search on the batches that were learnt on, Ratio on
	// test batches, and KnownRatio the cost by that of the plan by real rows.
	LearntRatio float64 `json:"learnt_ratio"`
	Ratio       float64 `json:"ratio_no_bo"`
	KnownRatio  float64 `json:"ratio_known_rows"`
	KernelRows  float64 `json:"kernel_error_rows"`
	KernelPairs float64 `json:"kernel_error_pairs"`
	// Of assumptions: the cheapest plan's cost by the cluster's and by LambdaML's, and its throughput by LambdaML's.
	ClusterRatio float64 `json:"ratio_cluster"`
	LambdaRatio  float64 `json:"ratio_lambdaml"`
	SpeedRatio   float64 `json:"throughput_ratio_lambdaml"`
}

func (l *BOODSLine) bill(b scatter.Bill, tokens int) { l.mean(b, tokens, 1) }

// mean adds one of so many batches.
func (l *BOODSLine) mean(b scatter.Bill, tokens, batches int) {
	n := float64(batches)
	l.Cost, l.Requests, l.GBs = l.Cost+b.Cost/n, l.Requests+b.Requests/n, l.GBs+b.GBs/n
	l.Latency, l.Transfers, l.Mended = l.Latency+b.Seconds/n, l.Transfers+b.Transfers/n, l.Mended+b.Short+b.Large
	l.Throughput = float64(tokens) / l.Latency
}

func (l *BOODSLine) planned(r *ods.Result, limit float64) {
	l.Modes, l.Feasible = modesOf(&r.Plan), r.Seconds <= limit
}

// BOODSChange is what a deployment costs beside another one, over seeds.
type BOODSChange struct {
	Part    string  `json:"part"`
	Shape   string  `json:"shape"`
	Policy  string  `json:"policy"`
	Against string  `json:"against"`
	Seeds   int     `json:"seeds"`
	Cost    float64 `json:"cost_change"` // as a part of the other's
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Speed   float64 `json:"throughput_change"`
	Claim   string  `json:"claim"`
}

// BOODSReport is all that the suite has run.
type BOODSReport struct {
	Seed     uint64        `json:"seed"`
	Platform string        `json:"platform"`
	Lines    []BOODSLine   `json:"lines"`
	Changes  []BOODSChange `json:"changes"`
	Searches []BOODSSearch `json:"searches"`
}

// boodsCompared are pairs of deployments with the paper's words about them.
var boodsCompared = []struct{ policy, against, claim string }{
	{"bo-ods", "cpu-cluster", "-75.67 % or less"},
	{"bo-ods", "cpu-cluster-fused", "-75.67 % or less"},
	{"bo-ods", "cpu-fitted", ""},
	{"bo-ods", "lambdaml", "-43.41 % or less, at -18.76 % of the throughput or more"},
	{"bo-ods", "lambdaml-best", ""},
	{"bo-ods", "ods", "below 0"},
	{"bo-ods", "exact", "closely aligns"},
	{"bo-ods", "ods-expected", ""},
	{"ods-expected", "cpu-cluster", ""},
	{"ods-expected", "lambdaml", ""},
	{boodsPlus, "cpu-cluster", ""},
	{boodsPlus, "lambdaml", "-43.41 % or less, at -18.76 % of the throughput or more"},
	{boodsPlus, "lambdaml-best", ""},
	{boodsPlus, "exact", ""},
	{"bo-ods", "random", ""},
	{"bo-ods", "remoe", ""},
}

// compare sets deployments beside each other.
func (r *BOODSReport) compare() {
	type key struct {
		shape, policy string
		seed          uint64
	}
	at, shapes := map[key]*BOODSLine{}, []string{}
	var seeds []uint64
	for i := range r.Lines {
		if l := &r.Lines[i]; l.Part == partFigure13 && l.Cost > 0 {
			at[key{l.Shape, l.Policy, l.Seed}] = l
			shapes, seeds = appended(shapes, l.Shape), appended(seeds, l.Seed)
		}
	}
	for _, shape := range shapes {
		for _, c := range boodsCompared {
			var by, speed []float64
			for _, seed := range seeds {
				a, b := at[key{shape, c.policy, seed}], at[key{shape, c.against, seed}]
				if a != nil && b != nil {
					by, speed = append(by, a.Cost/b.Cost-1), append(speed, a.Throughput/b.Throughput-1)
				}
			}
			if len(by) > 0 {
				r.Changes = append(r.Changes, changeOf(BOODSChange{Part: partFigure13, Shape: shape, Policy: c.policy, Against: c.against, Claim: c.claim}, by, speed))
			}
		}
	}
}

func appended[T comparable](list []T, v T) []T {
	if slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

func changeOf(c BOODSChange, by, speed []float64) BOODSChange {
	c.Seeds = len(by)
	c.Cost, c.Low, c.High = Interval95(by)
	c.Speed, _, _ = Interval95(speed)
	return c
}

// String is the comparison for people.
func (c BOODSChange) String() string {
	claim := ""
	if c.Claim != "" {
		claim = "; the paper: " + c.Claim
	}
	return fmt.Sprintf("%-15s %s costs %+6.2f %% of %-17s (%+.2f to %+.2f), throughput %+.2f %%%s\n", c.Shape, c.Policy, 100*c.Cost, c.Against, 100*c.Low, 100*c.High, 100*c.Speed, claim)
}

// String is a line for people.
func (l BOODSLine) String() string {
	of := fmt.Sprintf("%-15s seed %d %-10s %-22s", l.Shape, l.Seed, l.Part, l.Policy)
	switch l.Part {
	case partFigure10:
		return fmt.Sprintf("%s %8.1f rows of an expert wrong, %5.2f %% of the mean load (%s)\n", of, l.Difference, 100*l.Error, l.Text)
	case partFigure11:
		return fmt.Sprintf("%s %6d tokens: %.6f $, %8.2f s%s\n", of, l.Tokens, l.Cost, l.Latency, unless(l.Feasible, ", over the payload"))
	case partTargets:
		return fmt.Sprintf("%s limit %8.2f s (%.2f × the least): %.6f $, %.2f %% above the bound; %s; planned in %.0f ms%s\n", of, l.Limit, l.Times, l.Cost, 100*l.Gap, l.Modes, l.Plan, unless(l.Feasible, ", infeasible"))
	case partFigure12:
		return fmt.Sprintf("%s %.4f of no BO (learnt %.4f), %.4f of known rows; %d rounds of %.2f s; held-out error by rows %.2f %%, by pairs %.2f %%\n",
			of, l.Ratio, l.LearntRatio, l.KnownRatio, l.Rounds, l.RoundSeconds, 100*l.KernelRows, 100*l.KernelPairs)
	case partAssumed:
		return fmt.Sprintf("%s costs %+.1f %% of the cluster, %+.1f %% of lambdaml at %+.1f %% throughput; %s%s\n",
			of, 100*l.ClusterRatio-100, 100*l.LambdaRatio-100, 100*l.SpeedRatio-100, l.Modes, unless(l.Feasible, ", infeasible"))
	}
	return fmt.Sprintf("%s %.6f $ and %.6f of requests, %8.1f GB·s, %8.2f s, %7.1f tokens/s; rows wrong by %.2f %%; %s\n", of, l.Cost, l.Requests, l.GBs, l.Latency, l.Throughput, 100*l.Error, l.Modes)
}

func unless(is bool, words string) string {
	if is {
		return ""
	}
	return words
}

// Write writes the report into a folder, which is made: report.json, lines.csv, changes.csv and searches.csv.
func (r *BOODSReport) Write(folder string) error {
	return writeFiles(folder, []file{
		{"report.json", asJSON(r)}, {"lines.csv", asCSV(r.Lines)}, {"changes.csv", asCSV(r.Changes)},
		{"searches.csv", asCSV(r.Searches)},
	})
}
