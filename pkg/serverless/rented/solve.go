package rented

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// Question is one request that is to be planned.
type Question struct {
	System  *serverless.System
	Request remoe.Request
	// Activation is what is foretold of the request.
	Activation []float32
	// Exact asks for the best plan too, if the request does as is foretold.
	Exact bool
}

// Solution is a plan with all that led to it, as it is printed.
type Solution struct {
	Feasible bool `json:"feasible"`
	// Constraint is the one that is in the way, and Nearest the times nearest to those asked for that
	// some plan keeps; 0 where nothing fits into the memory.
	Constraint  string  `json:"constraint,omitempty"`
	NearestTTFT float64 `json:"nearest_ttft_seconds,omitempty"`
	NearestTPOT float64 `json:"nearest_tpot_seconds,omitempty"`

	Prompt int `json:"prompt_tokens"`
	Most   int `json:"most_prompt_tokens"` // as they are known before they are counted
	Output int `json:"output_tokens"`      // after the first

	*Planned
}

// Planned is a plan and what it takes by what is foretold.
type Planned struct {
	Ratio     float64         `json:"remote_ratio"`      // b
	Main      float64         `json:"main_memory_bytes"` // w
	Cost      float64         `json:"cost"`              // dollars
	Starting  float64         `json:"cost_of_start"`
	TTFT      float64         `json:"ttft_seconds"`
	TPOT      float64         `json:"tpot_seconds"`
	WorstTTFT float64         `json:"worst_ttft_seconds"`
	WorstTPOT float64         `json:"worst_tpot_seconds"`
	Start     float64         `json:"cold_start_seconds"`
	Layers    []PlannedLayer  `json:"layers"`
	Sizes     PlannedSizes    `json:"sizes"`
	Limits    []string        `json:"limits,omitempty"` // that are expected to be broken
	Baselines []PlannedBeside `json:"baselines"`
	Exact     *PlannedBeside  `json:"exact,omitempty"`
}

// PlannedLayer is what is decided of a layer, and the rows that its function is expected to have.
type PlannedLayer struct {
	Remote   []int   `json:"remote"`
	Memory   float64 `json:"memory_bytes"`
	Replicas int     `json:"replicas"`
	Prefill  float64 `json:"prefill_rows"`
	Decode   float64 `json:"decode_rows"`
}

// PlannedSizes is how the functions' memory was found.
type PlannedSizes struct {
	Theta1  float64 `json:"theta1"`
	Theta2  float64 `json:"theta2"`
	Theta3  float64 `json:"theta3"`
	R2      float64 `json:"r2"`
	Table   bool    `json:"table"`         // the table of times was searched instead of the dual
	Why     string  `json:"why,omitempty"` // it was
	Slater  bool    `json:"slater"`
	Lambda  float64 `json:"lambda"`
	KKT     float64 `json:"kkt_residual"`
	Dual    float64 `json:"dual"`    // dollars of P2: no sizes of the curve cost less
	Rounded float64 `json:"rounded"` // of the solution's neighbours, by the table of times
	Chosen  float64 `json:"chosen"`
	Best    float64 `json:"best"` // of all sizes
}

// PlannedBeside is what another way to serve the request would take.
type PlannedBeside struct {
	Name   string  `json:"name"`
	Cost   float64 `json:"cost"`
	TTFT   float64 `json:"ttft_seconds"`
	TPOT   float64 `json:"tpot_seconds"`
	Keeps  bool    `json:"keeps_slo"`
	Change float64 `json:"change"` // of the plan's cost beside this one's
}

// Solve plans a request. An SLO that no plan keeps is an answer; what cannot be planned is an error.
func Solve(q Question) (*Solution, error) {
	if err := errors.Join(q.System.Check(), q.Request.Check()); err != nil {
		return nil, err
	}
	set := Settled()
	s := &Solution{Prompt: q.Request.Prompt, Most: q.Request.Most, Output: q.Request.Output}
	m, err := remoe.Preallocate(q.System, q.Request, set)
	var d *remoe.Decision
	if err == nil {
		d, err = remoe.After(q.System, q.Request, m, q.Activation, set, true)
	}
	var refused *remoe.Infeasible
	switch {
	case errors.As(err, &refused):
		s.Constraint, s.NearestTTFT, s.NearestTPOT = refused.Limit, refused.TTFT, refused.TPOT
		return s, nil
	case errors.Is(err, remoe.ErrSizes): // beyond the worst case that algorithm 2 has looked at
		s.Constraint, s.NearestTTFT, s.NearestTPOT = "10c", m.TTFT, m.TPOT
		return s, nil
	case err != nil:
		return nil, err
	}
	s.Feasible = true
	expected := q.System.Expected(q.Activation, q.Request.Prompt, q.Request.Output)
	s.Planned = planOf(d, m, &expected)
	s.Baselines = q.baselines(&expected, d.Expected.Cost())
	if q.Exact {
		if s.Exact, err = q.exact(&expected, d.Expected.Cost()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func planOf(d *remoe.Decision, m remoe.Main, of *serverless.Demand) *Planned {
	b := &d.Expected
	p := &Planned{
		Ratio: m.Ratio, Main: m.Memory, Cost: b.Cost(), Starting: b.Starting, TTFT: b.TTFT(), TPOT: b.TPOT(), WorstTTFT: m.TTFT, WorstTPOT: m.TPOT, Start: b.Cold,
		Sizes: PlannedSizes{
			d.Memory.Fit.Theta1, d.Memory.Fit.Theta2, d.Memory.Fit.Theta3, d.Memory.Fit.R2, d.Memory.Table, d.Memory.Why, d.Memory.Slater,
			d.Memory.Lambda, d.Memory.KKT, d.Memory.Dual, d.Memory.Rounded, d.Memory.Chosen, d.Memory.Exact,
		},
	}
	for l := range d.Layers {
		one := PlannedLayer{Remote: []int{}, Replicas: 1}
		for e, away := range d.Layers[l].Remote {
			if away {
				one.Remote, one.Memory, one.Replicas = append(one.Remote, e), d.Layers[l].Memory, d.Layers[l].Replicas
				one.Prefill, one.Decode = one.Prefill+of.Layers[l].Prefill[e], one.Decode+of.Layers[l].Decode[e]
			}
		}
		p.Layers = append(p.Layers, one)
	}
	for _, l := range d.Limits {
		p.Limits = append(p.Limits, l.String())
	}
	return p
}

func (q *Question) beside(name string, b serverless.Bill, cost float64) PlannedBeside {
	o := q.Request.SLO
	return PlannedBeside{name, b.Cost(), b.TTFT(), b.TPOT(), b.TTFT() <= o.TTFT && b.TPOT() <= o.TPOT, cost/b.Cost() - 1}
}

// baselines returns the paper's, where memory holds them.
func (q *Question) baselines(d *serverless.Demand, cost float64) (all []PlannedBeside) {
	add := func(name string, b serverless.Bill, fits bool) {
		if fits {
			all = append(all, q.beside(name, b, cost))
		}
	}
	b, fits := remoe.CPU(q.System, d)
	add("cpu", b, fits)
	add("gpu", remoe.GPU(q.System, d), true)
	b, fits = remoe.Fetch(q.System, d)
	add("fetch", b, fits)
	b, fits = remoe.Mix(q.System, d)
	add("mix", b, fits)
	return all
}

// exact returns the cheapest plan there is for what is foretold: of all where these are few, else of those
// that send as many experts of each layer away.
func (q *Question) exact(d *serverless.Demand, cost float64) (*PlannedBeside, error) {
	name, plan := "exact, of all plans", (*serverless.Plan)(nil)
	if remoe.Few(q.System) {
		var err error
		if plan, err = remoe.Exact(q.System, d, q.Request.SLO, q.Request.Decided); err != nil {
			return nil, err
		}
	} else {
		name = "exact, of plans with as many remote experts in each layer"
		if best := remoe.Best(q.System, q.Request, d, remoe.Settings{Step: Step, Sizing: remoe.Least}); best != nil {
			plan = &best.Plan
		}
	}
	if plan == nil {
		return nil, errors.New("no plan keeps the SLO by what is foretold; ask for no exact plan, or raise the SLO")
	}
	out := q.beside(name, q.System.Serve(plan, d, q.Request.Decided), cost)
	return &out, nil
}

// Step is ε, assumed: the paper has no number.
const Step = 1. / 64

// Settled returns Remoe's settings.
func Settled() remoe.Settings { return remoe.Settings{Step: Step} }

// Decided is how many seconds behind a request its functions begin to start: its tokens are
// counted by then, and its plan is made. It is assumed, and above what plans are measured to take.
const Decided = 0.05
