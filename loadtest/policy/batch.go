package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
)

// BatchNames are what can be asked of an instance with loads of experts: the paper's plan, the best of
// all plans, what given plans are worth, and what can be chosen.
var BatchNames = []string{"ods", "exact", "evaluate", "options"}

// batch is an instance of BO/ODS: rows of a batch for each expert of a model, each a function.
type batch struct {
	scatter.System
	loads [][]float64
	limit float64
	plans []BatchPlan
	set   ods.Settings
}

// BatchDeployed is what is printed of a plan.
type BatchDeployed struct {
	Feasible bool       `json:"feasible"`
	Cost     float64    `json:"cost"` // dollars of memory
	Latency  float64    `json:"latency_seconds"`
	Bound    float64    `json:"bound,omitempty"`               // no plan costs less
	Least    float64    `json:"least_limit_seconds,omitempty"` // that could be kept
	Limits   []string   `json:"limits,omitempty"`              // that are broken
	Plan     *BatchPlan `json:"plan,omitempty"`
}

// BatchPlan is a plan as it is printed and read.
type BatchPlan struct {
	Beta   int          `json:"beta"` // rows of a minibatch, in all layers of mode 1
	Layers []BatchLayer `json:"layers"`
}

// BatchLayer is what is decided of a layer: the mode is 1 (pipelined), 2 (indirect) or 3 (direct).
type BatchLayer struct {
	Mode    int             `json:"mode"`
	Experts []BatchFunction `json:"experts"`
}

// BatchFunction is what is decided of an expert.
type BatchFunction struct {
	Memory   float64 `json:"memory_bytes"`
	Replicas int     `json:"replicas"`
}

// BatchEvaluated is what is printed of given plans.
type BatchEvaluated struct {
	Results []BatchDeployed `json:"results"`
}

// mostBatchOptions bounds what is tried of an instance: layers, experts, sizes and replicas, all
// multiplied.
const mostBatchOptions = 1 << 18

// deployBatch answers what is asked of an instance with loads.
func deployBatch(name string, v value) (any, error) {
	if !slices.Contains(BatchNames, name) {
		return nil, fmt.Errorf("%w: %s plans a request, and this is an instance of a batch (it has loads), of which can be asked %v", ErrState, name, BatchNames)
	}
	x, err := readBatch(v)
	if err != nil {
		return nil, err
	}
	switch name {
	case "options":
		return x.options(), nil
	case "evaluate":
		return x.evaluate()
	case "exact":
		return x.solve(ods.Exact)
	}
	return x.solve(ods.ODS)
}

func readBatch(v value) (*batch, error) {
	r, x := &reader{}, &batch{}
	r.object(v, "model", "platform", "loads", "limit_seconds", "head_seconds", "tail_seconds", "layer_seconds", "plans")
	m := r.part(v, "model", "layers", "experts", "top_k", "expert_bytes", "function_bytes", "row_in_bytes", "row_out_bytes", "next_bytes")
	x.Model = scatter.Model{
		Layers: r.upTo(m, "layers", mostInstanceLayers), Experts: r.upTo(m, "experts", mostInstanceExperts), TopK: r.upTo(m, "top_k", mostInstanceExperts),
		Expert: r.number(m, "expert_bytes", true), Intermediate: r.number(m, "function_bytes", false), In: r.number(m, "row_in_bytes", true), Out: r.number(m, "row_out_bytes", true), Next: r.number(m, "next_bytes", false),
	}
	r.rented(v, x)
	x.limit = r.number(v, "limit_seconds", true)
	x.Head, x.Tail, x.Between = r.number(v, "head_seconds", false), r.number(v, "tail_seconds", false), r.number(v, "layer_seconds", false)
	if n := x.Layers * x.Experts * len(x.Functions.Sizes) * x.Functions.Replicas; r.err == nil && n > mostBatchOptions {
		r.fail("model", "has %d options of memory and replicas in all; there may be %d", n, mostBatchOptions)
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := x.Check(); err != nil {
		return nil, r.checked(err)
	}
	for _, one := range r.list(v, "loads", true) {
		x.loads = append(x.loads, r.row(one, x.Experts))
	}
	for _, p := range r.list(v, "plans", false) {
		x.plans = append(x.plans, r.batchPlan(p))
	}
	if r.err != nil {
		return nil, r.err
	}
	x.set = ods.Settings{Betas: 256, States: 1 << 14}
	return x, r.checked(x.CheckLoads(x.loads))
}

// rented reads what functions run on.
func (r *reader) rented(v value, x *batch) {
	p := r.part(v, "platform", "memory_bytes", "memory_per_cpu_bytes", "read_bytes_per_second", "flops_per_second", "element_bytes", "invocation_seconds", "store_latency_seconds",
		"store_bytes_per_second", "message_bytes_per_second", "payload_bytes", "dollars_per_gb_second", "replicas", "parameters_kept", "one_gathers")
	x.Functions = cost.Platform{
		Sizes: r.floats(p, "memory_bytes"), PerCPU: r.number(p, "memory_per_cpu_bytes", true),
		CPU:        cost.Roofline{Bandwidth: r.number(p, "read_bytes_per_second", true), Rate: r.number(p, "flops_per_second", true), ElementBytes: r.number(p, "element_bytes", true)},
		Parameters: cost.Link{Latency: r.number(p, "store_latency_seconds", true), Bandwidth: r.number(p, "store_bytes_per_second", true)},
		Fixed:      r.number(p, "invocation_seconds", true), Payload: r.number(p, "payload_bytes", true), Direct: r.number(p, "message_bytes_per_second", true),
		Replicas: r.count(p, "replicas", true), Prices: cost.Prices{Memory: r.number(p, "dollars_per_gb_second", true)},
	}
	x.Kept, x.Gathers = r.whole(p, "parameters_kept", false, 1) == 1, r.whole(p, "one_gathers", false, 1) == 1
}

func (r *reader) batchPlan(p value) (out BatchPlan) {
	r.object(p, "beta", "layers")
	out.Beta = r.count(p, "beta", true)
	for _, l := range r.list(p, "layers", true) {
		r.object(l, "mode", "experts")
		one := BatchLayer{Mode: r.count(l, "mode", true)}
		for _, f := range r.list(l, "experts", true) {
			r.object(f, "memory_bytes", "replicas")
			one.Experts = append(one.Experts, BatchFunction{r.number(f, "memory_bytes", true), r.count(f, "replicas", true)})
		}
		out.Layers = append(out.Layers, one)
	}
	return out
}

// most are the rows of the expert that has most, which minibatches can have.
func (x *batch) most() (most int) {
	for _, of := range x.loads {
		for _, d := range of {
			most = max(most, scatter.Rows(d, 1))
		}
	}
	return max(1, most)
}

func (x *batch) solve(by func(*scatter.System, [][]float64, float64, ods.Settings) (*ods.Result, error)) (any, error) {
	r, err := by(&x.System, x.loads, x.limit, x.set)
	var no *ods.Infeasible
	switch {
	case errors.As(err, &no) && !math.IsInf(no.Least, 0):
		return &BatchDeployed{Limits: []string{err.Error()}, Least: no.Least}, nil
	case errors.Is(err, ods.ErrInfeasible):
		return &BatchDeployed{Limits: []string{err.Error()}}, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	out := &BatchDeployed{Feasible: true, Cost: r.Cost, Latency: r.Seconds, Bound: r.Bound, Plan: &BatchPlan{Beta: 1}}
	for _, l := range r.Plan.Layers {
		one := BatchLayer{Mode: int(l.Mode)}
		for _, f := range l.Experts {
			one.Experts = append(one.Experts, BatchFunction(f))
		}
		out.Plan.Layers, out.Plan.Beta = append(out.Plan.Layers, one), max(out.Plan.Beta, l.Beta)
	}
	return out, x.finite(out)
}

// finite refuses numbers that cannot be printed.
func (x *batch) finite(d *BatchDeployed) error {
	if sum := d.Cost + d.Latency + d.Bound; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("%w: times or dollars are no finite numbers; give bytes, speeds and prices that can be", ErrState)
	}
	return nil
}

// evaluate says what given plans are worth.
func (x *batch) evaluate() (any, error) {
	out := &BatchEvaluated{Results: []BatchDeployed{}}
	for i := range x.plans {
		d := x.worth(&x.plans[i])
		if err := x.finite(&d); err != nil {
			return nil, err
		}
		out.Results = append(out.Results, d)
	}
	return out, nil
}

func (x *batch) worth(given *BatchPlan) (d BatchDeployed) {
	p := &scatter.Plan{}
	for l, of := range given.Layers {
		one := scatter.Layer{Mode: scatter.Mode(of.Mode)}
		most := 1
		for e, f := range of.Experts {
			one.Experts = append(one.Experts, scatter.Function(f))
			if l < len(x.loads) && e < len(x.loads[l]) && f.Replicas > 0 {
				most = max(most, scatter.Rows(x.loads[l][e], f.Replicas))
			}
		}
		if one.Mode == scatter.Pipelined {
			one.Beta = min(given.Beta, most)
		}
		p.Layers = append(p.Layers, one)
	}
	limits := x.Limits(p, x.loads, x.limit)
	for _, l := range limits {
		d.Limits = append(d.Limits, l.String())
		if l.Shape() {
			return d // there is no bill of such a plan
		}
	}
	d.Feasible = len(limits) == 0
	b := x.Serve(p, x.loads)
	d.Cost, d.Latency = b.Cost, b.Seconds
	return d
}

// mostBetas is up to how many sizes of minibatches all are listed.
const mostBetas = 1 << 12

func (x *batch) options() *Chosen {
	count := func(n int) []int {
		list := make([]int, n)
		for i := range list {
			list[i] = i + 1
		}
		return list
	}
	out := &Chosen{Options: []DeployOption{{"beta", count(min(mostBetas, x.most()))}}}
	for l := range x.Layers {
		at := fmt.Sprintf("layers[%d].", l)
		out.Options = append(out.Options, DeployOption{at + "mode", count(len(scatter.Modes))})
		for e := range x.Experts {
			of := fmt.Sprintf("%sexperts[%d].", at, e)
			out.Options = append(out.Options, DeployOption{of + "memory_bytes", x.Functions.Sizes}, DeployOption{of + "replicas", count(x.Functions.Replicas)})
		}
	}
	return out
}
