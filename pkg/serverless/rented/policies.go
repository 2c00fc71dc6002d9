package rented

import (
	"errors"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// Outcome is what a request took under a policy.
type Outcome struct {
	serverless.Bill
	Missed   bool    // its SLO
	Refused  bool    // by the policy: it was served as MIX does
	Ratio    float64 // of remote experts
	Decision *remoe.Decision
}

// Policy serves requests.
type Policy struct {
	Name string
	Set  remoe.Settings
	by   func(*Run, *Served, remoe.Settings) (Outcome, error)
}

// Run is what requests are served on.
type Run struct {
	*serverless.System
	SLO serverless.SLO
	// Decided is how many seconds behind the arrival functions begin to start.
	Decided float64
	// Foretold is a request's activation.
	Foretold func(*Served) []float32
	Seed     uint64
}

// mostTokens is what is known of a prompt before it is tokenized: 500 characters have no more.
const mostTokens = 500

// step is ε, assumed: the paper has no number.
const step = 1. / 64

// Settled are Remoe's settings.
func Settled() remoe.Settings { return remoe.Settings{Step: step} }

// Decided is how many seconds behind a request its functions begin to start: its tokens are
// counted by then, and its plan is made. It is assumed, and above what plans are measured to take.
const Decided = 0.05

// Policies are the baselines, Remoe's and its variants, and the best with known routing. Scale is
// what makes the bound hold as often as it says (see Calibrate).
func Policies(scale float64) []Policy {
	return []Policy{
		{"cpu", remoe.Settings{}, func(r *Run, q *Served, _ remoe.Settings) (Outcome, error) {
			return fits(remoe.CPU(r.System, &q.Demand))
		}},
		{"gpu", remoe.Settings{}, func(r *Run, q *Served, _ remoe.Settings) (Outcome, error) {
			return fits(remoe.GPU(r.System, &q.Demand), true)
		}},
		{"fetch", remoe.Settings{}, func(r *Run, q *Served, _ remoe.Settings) (Outcome, error) {
			return fits(remoe.Fetch(r.System, &q.Demand))
		}},
		{"mix", remoe.Settings{}, mixed},
		{"remoe", remoe.Settings{Step: step}, planned},
		{"remoe-printed", remoe.Settings{Step: step, Bound: remoe.Bound{Printed: true}}, planned},
		{"remoe+calibrated", remoe.Settings{Step: step, Bound: remoe.Bound{Scale: scale}}, planned},
		{"remoe+joint", remoe.Settings{Step: step}, func(r *Run, q *Served, set remoe.Settings) (Outcome, error) {
			return joint(r, q, set, remoe.Best)
		}},
		{"remoe+layers", remoe.Settings{Step: step}, func(r *Run, q *Served, set remoe.Settings) (Outcome, error) {
			return joint(r, q, set, remoe.Layered)
		}},
		{"exact", remoe.Settings{Step: step, Sizing: remoe.Least}, known},
	}
}

// ErrMemory says that a model fits into none of the memory sizes.
var ErrMemory = errors.New("no memory size holds the model")

func fits(b serverless.Bill, fits bool) (Outcome, error) {
	if !fits {
		return Outcome{}, ErrMemory
	}
	return Outcome{Bill: b}, nil
}

func mixed(r *Run, q *Served, _ remoe.Settings) (Outcome, error) {
	return fits(remoe.Mix(r.System, &q.Demand))
}

// Serve is what a request takes under a policy.
func (p Policy) Serve(r *Run, q *Served) (Outcome, error) {
	o, err := p.by(r, q, p.Set)
	if err != nil {
		return o, err
	}
	o.Missed = o.TTFT() > r.SLO.TTFT || o.TPOT() > r.SLO.TPOT
	return o, nil
}

// request is what a policy knows of one.
func (r *Run) request(q *Served) remoe.Request {
	return remoe.Request{Most: max(mostTokens, q.Demand.Prompt), Prompt: q.Demand.Prompt, Output: q.Demand.Output, SLO: r.SLO, Decided: r.Decided}
}

// planned is Remoe. A request that it refuses is served as MIX does, and says so.
func planned(r *Run, q *Served, set remoe.Settings) (Outcome, error) {
	m, err := remoe.Preallocate(r.System, r.request(q), set)
	if err == nil {
		var d *remoe.Decision
		if d, err = remoe.After(r.System, r.request(q), m, r.Foretold(q), set, true); err == nil {
			return r.outcome(d, q), nil
		}
	}
	if !errors.Is(err, remoe.ErrInfeasible) {
		return Outcome{}, err
	}
	o, err := mixed(r, q, set)
	o.Refused = true
	return o, err
}

// joint decides all at once by what is foretold: the cheapest number of remote experts and main
// model instead of the most that the worst case allows. The main model waits for the prediction.
func joint(r *Run, q *Served, set remoe.Settings, by func(*serverless.System, remoe.Request, *serverless.Demand, remoe.Settings) *remoe.Decision) (Outcome, error) {
	d := r.Expected(r.Foretold(q), q.Demand.Prompt, q.Demand.Output)
	best := by(r.System, r.request(q), &d, set)
	if best == nil {
		o, err := mixed(r, q, set)
		o.Refused = true
		return o, err
	}
	o := r.outcome(best, q)
	o.Bill.Cold += r.Decided
	return o, nil
}

func (r *Run) outcome(d *remoe.Decision, q *Served) Outcome {
	return Outcome{Bill: r.ServeDrawn(&d.Plan, &q.Demand, r.Decided, r.draws(q)), Ratio: d.Main.Ratio, Decision: d}
}

// draws are what a request's invocations take beside their work.
func (r *Run) draws(q *Served) serverless.Draw {
	state := splitmix.Mix(r.Seed ^ splitmix.Mix(uint64(q.Demand.Prompt)<<32^uint64(q.Vector[0]*(1<<20))))
	return func() float64 { return r.Functions.Invocation(splitmix.Unit(splitmix.Next(&state))) }
}

// known is the best plan with known routing: of all plans where these are few, else of those with
// as many remote experts in each layer.
func known(r *Run, q *Served, set remoe.Settings) (Outcome, error) {
	var d *remoe.Decision
	if remoe.Few(r.System) {
		p, err := remoe.Exact(r.System, &q.Demand, r.SLO, r.Decided)
		if err != nil {
			return Outcome{}, err
		}
		if p != nil {
			d = &remoe.Decision{Plan: *p, Main: remoe.Main{Ratio: ratio(p)}}
		}
	} else {
		d = remoe.Best(r.System, r.request(q), &q.Demand, set)
	}
	if d == nil {
		o, err := mixed(r, q, set)
		o.Refused = true
		return o, err
	}
	return r.outcome(d, q), nil
}

func ratio(p *serverless.Plan) float64 {
	n, all := 0, 0
	for l := range p.Layers {
		n, all = n+p.Layers[l].Size(), all+len(p.Layers[l].Remote)
	}
	return float64(n) / float64(all)
}

// Objective is the SLO that is a multiple of what MIX takes, in the mean of requests.
func Objective(s *serverless.System, served []Served, times float64) (o serverless.SLO, err error) {
	for i := range served {
		b, fits := remoe.Mix(s, &served[i].Demand)
		if !fits {
			return o, ErrMemory
		}
		o.TTFT += times * b.TTFT() / float64(len(served))
		o.TPOT += times * b.TPOT() / float64(len(served))
	}
	return o, nil
}
