package arena

import (
	"fmt"

	"github.com/switchyard/switchyard/loadtest/sim"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// Line is what a policy took on the simulator; times are milliseconds.
type Line struct {
	sim.Line
	// ByReplica is the mean by the formula of MoEless, §3.3, as it is printed: of the
	// most loaded replica, as if replicas of one host did not share its processor.
	ByReplica float64 `json:"layer_ms_mean_by_replica"`
	// Elapsed are the simulated seconds; Waits how often rows had to wait for a cold start.
	Elapsed float64 `json:"elapsed_s"`
	Waits   int     `json:"cold_waits"`
	// Foreseen is the share of rows that predictions gave to the right expert.
	Foreseen float64 `json:"foreseen,omitempty"`
	Hosts    int     `json:"hosts"`
	Seed     uint64  `json:"seed"`
	// Load is 0: the trace as it is.
	Load float64 `json:"load"`
	// Memory is the mean of the experts' gigabytes.
	Memory float64 `json:"memory_gb_mean"`
	// Default says that the scaler decides by this policy, unless it is told otherwise.
	Default bool   `json:"default"`
	Part    string `json:"part"`
	Routing string `json:"routing"`
	// Value is the distance or the threshold where that is varied, or what Constant is
	// multiplied with.
	Value    float64 `json:"value,omitempty"`
	Constant string  `json:"constant,omitempty"`
	// CDF are quantiles of layers' times, at equal steps from 0 to 1.
	CDF []float64 `json:"-"`
}

// cdfSteps are the steps of a line's CDF.
const cdfSteps = 100

func lineOf(j job, r *sim.Result, device string) Line {
	l := Line{
		Line: r.Line(j.settings.Model.Name, device), ByReplica: r.ByReplica * 1e3, Elapsed: r.Elapsed, Waits: r.Waits, Foreseen: r.Accuracy(), Hosts: j.settings.Hosts,
		Seed: j.settings.Seed, Default: r.Policy == registry.Default,
		Part: j.part, Routing: j.routing, Value: j.value, Constant: j.constant,
	}
	if r.Elapsed > 0 {
		l.Memory = r.Resident / r.Elapsed
	}
	for i := range cdfSteps + 1 {
		l.CDF = append(l.CDF, r.Quantile(float64(i)/cdfSteps)*1e3)
	}
	return l
}

// find is the line of a part, shape, routing and policy; its value is that of the
// varied number.
func find(lines []Line, part, shape, routing, policy string) *Line {
	for i, l := range lines {
		if l.Part == part && l.Shape == shape && l.Routing == routing && l.Policy == policy {
			return &lines[i]
		}
	}
	return nil
}

// String is a line of the report.
func (l Line) String() string {
	return fmt.Sprintf("%-14s %-10s %8.2f ms a layer, p99 %8.2f; %9.0f GB·s billed, %9.0f resident; %5.1f replicas, %d loads\n",
		l.Shape, l.Policy, l.Mean, l.P99, l.Cost, l.Resident, l.Replicas, l.ColdStarts)
}
