package rented

import (
	"errors"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

// What the paper's figures 1 and 4 to 6 show, of a system.

// Bar is a time in which memory is billed.
type Bar struct {
	Row  string  `json:"row"` // what has the memory
	From float64 `json:"from_s"`
	To   float64 `json:"to_s"`
	GB   float64 `json:"gb"`
}

// Billed are the bars of a request under a policy, from when all has started to so many output tokens
// (figure 1). What is no function is billed all the time.
func (r *Run) Billed(p Policy, q *Served, tokens int) ([]Bar, error) {
	short := *q
	short.Demand = shortened(&q.Demand, tokens)
	o, err := p.Serve(r, &short)
	if err != nil {
		return nil, err
	}
	seconds := o.Seconds()
	all := []Bar{}
	for _, whole := range []struct {
		row string
		gbs float64
	}{{"GPU", o.GPUGBs}, {"host", o.HostGBs}} {
		if whole.gbs > 0 && seconds > 0 {
			all = append(all, Bar{whole.row, 0, seconds, whole.gbs / seconds})
		}
	}
	if o.Decision != nil && !o.Refused {
		all = append(all, r.functions(&o.Decision.Plan, &short.Demand)...)
	}
	return all, nil
}

// functions are the bars of a plan's functions, by the means of invocations.
func (r *Run) functions(p *serverless.Plan, d *serverless.Demand) (all []Bar) {
	at := 0.0
	add := func(l int, before, took, seconds float64) {
		if took > 0 {
			all = append(all, Bar{"functions", at + before, at + before + took, p.Layers[l].Memory / cost.GB})
		}
		at += seconds
	}
	for l := range p.Layers {
		one, rows := &p.Layers[l], &d.Layers[l]
		seconds, functions, _ := r.PrefillLayer(p.Main, one, rows, d.Prompt, r.Mean())
		add(l, r.NonExpert(d.Prompt)+r.Move(d.Prompt), functions/float64(one.Replicas), seconds)
	}
	for t := range d.Output {
		for l := range p.Layers {
			one, away := &p.Layers[l], 0
			for _, e := range d.Layers[l].Tokens[t] {
				if one.Remote[e] {
					away++
				}
			}
			seconds, function := r.DecodeExperts(p.Main, one.Memory, away, r.Mean())
			add(l, r.NonExpert(1)+r.Move(r.TopK), function, seconds+r.NonExpert(1))
		}
	}
	return all
}

// ByRemote is what a token takes in a layer's experts, on hosts and functions with so many processors,
// by the share of experts that are remote, with even routing (figure 4).
func ByRemote(s *serverless.System, cpus float64) (shares, seconds []float64) {
	memory := cpus * s.Functions.PerCPU
	rows := serverless.Rows{Decode: make([]float64, s.Experts)}
	for e := range rows.Decode {
		rows.Decode[e] = 1
	}
	remote := make([]bool, s.Experts)
	for m := 0; ; m++ {
		mean := 0.0
		for away, part := range rows.Away(remote, s.TopK, 1) {
			one, _ := s.DecodeExperts(memory, memory, away, s.Mean())
			mean += part * one
		}
		shares, seconds = append(shares, float64(m)/float64(s.Experts)), append(seconds, mean)
		if m == s.Experts {
			return shares, seconds
		}
		remote[m] = true
	}
}

// Times are a request's in prefill and decode with all experts on the host (figure 5).
func Times(s *serverless.System, activation []float32, prompt, output int) (prefill, decode float64, err error) {
	d := s.Expected(activation, prompt, output)
	b, fits := remoe.Mix(s, &d)
	if !fits {
		return 0, 0, ErrMemory
	}
	return b.Prefill, b.Decode, nil
}

// ByMemory is what a token takes in a layer's function by its GB, and the fit to that (figure 6). The
// error says why there is none.
func ByMemory(s *serverless.System) (memory, seconds []float64, fit remoe.Fit, err error) {
	for _, size := range s.Sizes() {
		memory, seconds = append(memory, size/cost.GB), append(seconds, float64(s.TopK)*s.Compute(size, 1))
	}
	fit, err = remoe.FitTimes(memory, seconds)
	return memory, seconds, fit, err
}

// Gap is what Remoe's plan of a request costs above the best of all plans, with known routing, and where
// that comes from: as parts of the best plan's cost.
type Gap struct {
	Whole float64 `json:"gap"`
	// Prediction is lost since rows are foretold, WorstCase since the share of remote experts and the
	// main model's memory are those of the worst case, Relaxation since sizes are those of the dual
	// problem, and Replicas since their number is found by LPT's bound and one by one.
	Prediction float64 `json:"misprediction"`
	WorstCase  float64 `json:"worst_case"`
	Relaxation float64 `json:"relaxation"`
	Replicas   float64 `json:"replicas_lpt"`
	// Selection is the rest: as many experts of each layer leave, those with the fewest rows.
	Selection float64 `json:"selection"`
}

// ErrNoGap says that the parts cannot be told: a plan is missing, or there are too many to try them all.
var ErrNoGap = errors.New("no gap to the best plan")

// Gap takes Remoe's restrictions away, one after the other. Costs are by the means of invocations.
func (r *Run) Gap(q *Served) (g Gap, err error) {
	request, set := r.request(q), Settled()
	if !remoe.Few(r.System) {
		return g, errors.Join(ErrNoGap, remoe.ErrTooMany)
	}
	bill := func(p *serverless.Plan) float64 { b := r.Serve(p, &q.Demand, r.Decided); return b.Cost() }
	plan, err := remoe.Decide(r.System, request, r.Foretold(q), set)
	if err != nil {
		return g, errors.Join(ErrNoGap, err)
	}
	known, err := remoe.Known(r.System, request, plan.Main, &q.Demand, set)
	if err != nil {
		return g, errors.Join(ErrNoGap, err)
	}
	least := set
	least.Sizing = remoe.Least
	best, sized := remoe.Best(r.System, request, &q.Demand, set), remoe.Best(r.System, request, &q.Demand, least)
	exact, err := remoe.Exact(r.System, &q.Demand, r.SLO, r.Decided)
	if err != nil || exact == nil || best == nil || sized == nil {
		return g, errors.Join(ErrNoGap, err)
	}
	whole := bill(exact)
	steps := []float64{bill(&plan.Plan), bill(&known.Plan), bill(&best.Plan), bill(&sized.Plan), bill(remoe.Replicated(r.System, &sized.Plan, &q.Demand, r.SLO, r.Decided)), whole}
	for i, to := range []*float64{&g.Prediction, &g.WorstCase, &g.Relaxation, &g.Replicas, &g.Selection} {
		*to = (steps[i] - steps[i+1]) / whole
	}
	g.Whole = steps[0]/whole - 1
	return g, nil
}
