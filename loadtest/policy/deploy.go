package policy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// DeployNames are what can be asked of an instance: a plan by Remoe, or by ODS of one with loads; the
// best of all plans, what given plans are worth, and what can be chosen.
var DeployNames = []string{"remoe", "ods", "exact", "evaluate", "options"}

// Deployed is what is printed of a plan.
type Deployed struct {
	Feasible bool          `json:"feasible"`
	Cost     float64       `json:"cost"`            // dollars
	Latency  float64       `json:"latency_seconds"` // from the arrival to the last token
	TTFT     float64       `json:"ttft_seconds"`
	TPOT     float64       `json:"tpot_seconds"`
	Limits   []string      `json:"limits,omitempty"` // that are broken
	Plan     *DeployedPlan `json:"plan,omitempty"`
}

// DeployedPlan is a plan as it is printed and read.
type DeployedPlan struct {
	Main   float64         `json:"main_memory_bytes"`
	Layers []DeployedLayer `json:"layers"`
}

// DeployedLayer is what is decided of a layer; a layer without remote experts has no memory.
type DeployedLayer struct {
	Remote   []int   `json:"remote"`
	Memory   float64 `json:"memory_bytes"`
	Replicas int     `json:"replicas"`
}

// Evaluated is what is printed of given plans.
type Evaluated struct {
	Results []Deployed `json:"results"`
}

// Chosen are what can be chosen freely.
type Chosen struct {
	Options []DeployOption `json:"options"`
}

// DeployOption is one of these, with its values.
type DeployOption struct {
	Choice string `json:"choice"`
	Values any    `json:"values"`
}

// Deploy decides which experts of a model are functions for one request, or how all of them are deployed
// for a batch.
func Deploy(name string, in io.Reader) (any, error) {
	if !slices.Contains(DeployNames, name) {
		return nil, fmt.Errorf("--name: %w: %q deploys nothing; there are %v", registry.ErrUnknown, name, DeployNames)
	}
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	if _, ok := (&reader{}).find(v, "loads", false); ok {
		return deployBatch(name, v)
	}
	if name == "ods" {
		return nil, fmt.Errorf("%w: loads is missing; ods plans a batch by the rows of each expert", ErrState)
	}
	x, err := readInstance(v)
	if err != nil {
		return nil, err
	}
	out, err := x.asked(name)
	if err == nil && x.absurd {
		return nil, fmt.Errorf("%w: times or dollars are no finite numbers; give bytes, speeds and prices that can be", ErrState)
	}
	return out, err
}

func (x *instance) asked(name string) (any, error) {
	switch name {
	case "options":
		return x.options()
	case "evaluate":
		out := &Evaluated{Results: []Deployed{}}
		for i := range x.plans {
			out.Results = append(out.Results, x.deployed(&x.plans[i], false))
		}
		return out, nil
	case "exact":
		return x.exact()
	}
	return x.remoe()
}

func (x *instance) exact() (any, error) {
	p, err := remoe.Exact(&x.System, &x.demand, x.request.SLO, x.request.Decided)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	case p == nil:
		return &Deployed{Limits: []string{"no plan keeps all constraints: raise the SLO, or add larger memory sizes"}}, nil
	}
	d := x.deployed(p, true)
	return &d, nil
}

// remoe plans by what is known of the request. What it takes is told by the rows that come.
func (x *instance) remoe() (any, error) {
	d, err := remoe.Decide(&x.System, x.request, x.activation, remoe.Settings{Step: 1 / float64(x.Experts)})
	switch {
	case errors.Is(err, remoe.ErrInfeasible):
		return &Deployed{Limits: []string{err.Error()}}, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	out := x.deployed(&d.Plan, true)
	return &out, nil
}

// deployed is what a plan is worth for the rows that come; whole: with the plan.
func (x *instance) deployed(p *serverless.Plan, whole bool) (d Deployed) {
	limits := x.Limits(p, &x.demand, x.request.SLO, x.request.Decided)
	for _, l := range limits {
		d.Limits = append(d.Limits, l.String())
		if l.Shape() {
			return d // there is no bill of such a plan
		}
	}
	d.Feasible = len(limits) == 0
	b := x.Serve(p, &x.demand, x.request.Decided)
	d.Cost, d.Latency, d.TTFT, d.TPOT = b.Cost(), b.Cold+b.Seconds(), b.TTFT(), b.TPOT()
	if sum := d.Cost + d.Latency; math.IsNaN(sum) || math.IsInf(sum, 0) {
		x.absurd = true
	}
	if !whole {
		return d
	}
	d.Plan = &DeployedPlan{Main: p.Main}
	for _, l := range p.Layers {
		one := DeployedLayer{Remote: []int{}, Replicas: 1}
		for e, away := range l.Remote {
			if away {
				one.Remote, one.Memory, one.Replicas = append(one.Remote, e), l.Memory, l.Replicas
			}
		}
		d.Plan.Layers = append(d.Plan.Layers, one)
	}
	return d
}

// mostListed is up to how many experts of a layer all sets of them are listed.
const mostListed = 10

func (x *instance) options() (any, error) {
	if x.Experts > mostListed {
		return nil, fmt.Errorf("%w: a layer has %d experts; sets are listed of %d at most", ErrState, x.Experts, mostListed)
	}
	sets := make([][]int, 1<<x.Experts)
	for i := range sets {
		sets[i] = []int{}
		for e := range x.Experts {
			if i>>e&1 == 1 {
				sets[i] = append(sets[i], e)
			}
		}
	}
	replicas := make([]int, x.Replicas)
	for i := range replicas {
		replicas[i] = i + 1
	}
	out := &Chosen{Options: []DeployOption{{"main_memory_bytes", x.Main}}}
	for l := range x.Layers {
		at := fmt.Sprintf("layers[%d].", l)
		out.Options = append(out.Options, DeployOption{at + "remote", sets}, DeployOption{at + "memory_bytes", x.Sizes()}, DeployOption{at + "replicas", replicas})
	}
	return out, nil
}
