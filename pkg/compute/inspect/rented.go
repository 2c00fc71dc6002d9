package inspect

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/switchyard/switchyard/pkg/policy/cost"
)

// Rented is what a model's experts take as functions of a serverless platform, one expert
// in each.
type Rented struct {
	ExpertBytes float64 `json:"expert_bytes"` // as the platform computes
	Rows        int     `json:"rows"`         // of an invocation
	MostRows    int     `json:"most_rows"`    // that its payload takes
	// Median and P99 are what an invocation takes beside its work.
	Median float64 `json:"invocation_s_p50"`
	P99    float64 `json:"invocation_s_p99"`
	Cold   float64 `json:"cold_start_s"`
	// Requests and Store are dollars, for a million invocations and for all experts in the
	// store for a day.
	Requests float64  `json:"requests_dollars_per_million"`
	Store    float64  `json:"store_dollars_per_day"`
	Sizes    []Rental `json:"sizes"`
}

// Rental is a function with so much memory: of one that keeps its parameters, and of one
// that loads them in each invocation. Dollars are for the running of a million invocations.
type Rental struct {
	Memory        float64 `json:"memory_bytes"`
	CPUs          float64 `json:"cpus"`
	Seconds       float64 `json:"run_s"`
	Dollars       float64 `json:"dollars_per_million"`
	Loads         float64 `json:"run_and_load_s"`
	DollarsLoaded float64 `json:"dollars_per_million_with_load"`
}

const million = 1e6

// Rent returns what the experts take on a platform, with so many rows in each invocation.
func (r *Report) Rent(p cost.Platform, rows int) (*Rented, error) {
	expert := r.expertBytes(p.CPU.ElementBytes)
	if expert == 0 {
		return nil, fmt.Errorf("the model has no routed experts; functions are rented for them")
	}
	y := &Rented{
		ExpertBytes: expert, Rows: rows, MostRows: p.Rows(float64(r.RowBytes)), Median: p.Invocation(0.5), P99: p.Invocation(0.99), Cold: p.Cold(expert),
		Requests: p.Invoke(million), Store: p.Store(expert*float64(r.MoELayers*r.Experts), 24*3600),
	}
	if rows < 1 || rows > y.MostRows {
		return nil, fmt.Errorf("%d rows of %d bytes are asked for; an invocation takes 1 to %d of them", rows, r.RowBytes, y.MostRows)
	}
	least, ok := p.Smallest(expert + 2*float64(rows)*float64(r.RowBytes))
	if !ok {
		return nil, fmt.Errorf("an expert with %d rows takes %s, and the platform's largest function has %s; take another platform",
			rows, size(int64(expert)+2*int64(rows)*r.RowBytes), size(int64(p.Sizes[len(p.Sizes)-1])))
	}
	for _, memory := range p.Sizes {
		if memory < least {
			continue
		}
		run := p.Device(memory).Compute(cost.Access{Bytes: expert, Rows: rows})
		load := run + p.Parameters.Seconds(expert)
		y.Sizes = append(y.Sizes, Rental{memory, p.CPUs(memory), run, million * p.Run(memory, run), load, million * p.Run(memory, load)})
	}
	return y, nil
}

// expertBytes returns those of a routed expert with elements of so many bytes.
func (r *Report) expertBytes(element float64) float64 {
	all := int64(0)
	for _, p := range r.Parts {
		if p.Name == expertsPart {
			all += p.Parameters
		}
	}
	return element * float64(all) / float64(max(1, r.MoELayers*r.Experts))
}

func (y *Rented) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "an expert has %s there; %d rows an invocation, of at most %d\n", size(int64(y.ExpertBytes)), y.Rows, y.MostRows)
	fmt.Fprintf(&b, "an invocation takes %.3g s beside its work (p99 %.3g s), a cold start %.3g s\n", y.Median, y.P99, y.Cold)
	fmt.Fprintf(&b, "dollars: requests %.3g a million, all experts in the store %.3g a day; of a million invocations, running:\n", y.Requests, y.Store)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "memory\tCPUs\tkept: s\tdollars\tloaded each time: s\tdollars\t")
	for _, s := range y.Sizes {
		fmt.Fprintf(w, "%s\t%.2f\t%.3g\t%.4g\t%.3g\t%.4g\t\n", size(int64(s.Memory)), s.CPUs, s.Seconds, s.Dollars, s.Loads, s.DollarsLoaded)
	}
	w.Flush() // a strings.Builder takes everything
	return b.String()
}
