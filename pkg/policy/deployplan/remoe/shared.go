package remoe

import (
	"errors"
	"fmt"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// SharedSettings are of a planner.
type SharedSettings struct {
	System *serverless.System
	Plan   Settings
	// SLO is promised to requests of at most Most tokens that make at most Output more after the
	// first.
	SLO          serverless.SLO
	Most, Output int
	// Decided is how many seconds behind a request its functions begin to start.
	Decided float64
	// Window is how many of the last requests a plan is for.
	Window int
	// Worth is the part of their cost that a change has to save.
	Worth float64
	// Each plans for each request by itself, the share of remote experts and the main model's memory
	// too; a plan that is another one always takes the place of that in force. Window is 1.
	Each bool
	// BestEffort serves as MIX does what no plan keeps the SLO for.
	BestEffort bool
}

// mostWindow bounds the requests that are kept in mind.
const mostWindow = 1 << 12

// Check says what is wrong with settings, and what to do.
func (s *SharedSettings) Check() error {
	switch {
	case s.Window < 1 || s.Window > mostWindow:
		return fmt.Errorf("a plan is for the last %d requests; set it to 1 to %d", s.Window, mostWindow)
	case s.Each && s.Window != 1:
		return fmt.Errorf("each request has its own plan, which is for the last %d; set it to 1", s.Window)
	case !(s.Worth >= 0 && s.Worth < 1):
		return fmt.Errorf("a change of the plan has to save %v of the cost; set it from 0 to below 1", s.Worth)
	}
	return errors.Join(s.System.Check(), s.longest().Check())
}

func (s *SharedSettings) longest() Request {
	return Request{Most: s.Most, Prompt: max(1, s.Most), Output: s.Output, SLO: s.SLO, Decided: s.Decided}
}

// SharedRequest is one that was admitted, with the activation that is foretold.
type SharedRequest struct {
	Prompt, Output int // tokens, and those after the first
	Activation     []float32
}

// Shared plans by Remoe for all requests of a model at once, which one set of functions
// serves (Decide plans for one request).
//
//	admitted requests ─▶ one that stands for them ─remoe.After─▶ plan ─worth it?─▶ plan in force
//
// The share of remote experts and the main model's memory are decided once, for the longest
// request that the SLO is promised to: what no plan keeps is refused before anything starts, or
// served as MIX does where that is asked for. Which experts leave, the memory of functions and
// their replicas follow the last requests: their mean activation, and the longest of them. A new
// plan replaces the one in force if the last requests would have paid less for it, what its new
// functions cost to start included, or if more of them would have kept their SLO.
//
// SharedLayers makes hosts' plans of it: one host stands beside attention, the others have at most one
// replica of each layer's function. SharedPlanOf reads them back, so that who plans next goes on from
// the plan in force. It has no clock.
type Shared struct {
	SharedSettings
	// Main is the main model's part, and Refused why it is that of MIX; nil: the SLO holds.
	Main    Main
	Refused *Infeasible

	last   []SharedRequest // the newest last
	plan   *serverless.Plan
	fresh  bool  // requests have come since the last decision
	failed error // why there was no plan for them
}

// NewShared is a planner without requests. The error is a *remoe.Infeasible where no plan keeps the SLO.
func NewShared(s SharedSettings) (*Shared, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	p := &Shared{SharedSettings: s, fresh: true}
	if err := p.preallocate(s.longest()); err != nil {
		return nil, err
	}
	return p, nil
}

// preallocate decides the main model's part for a request.
func (p *Shared) preallocate(r Request) error {
	m, err := Preallocate(p.System, r, p.Plan)
	if err == nil {
		p.Main, p.Refused = m, nil
		return nil
	}
	var refused *Infeasible
	if !errors.As(err, &refused) || !p.BestEffort {
		return err
	}
	need := p.System.All() + p.System.Token*float64(p.Most+p.Output)
	at := slices.IndexFunc(p.System.Main, func(size float64) bool { return size >= need })
	if at < 0 {
		return err
	}
	p.Main, p.Refused = Main{Memory: p.System.Main[at]}, refused
	return nil
}

// Admit takes in a request. One of more tokens than the SLO is promised to counts as the longest.
func (p *Shared) Admit(r SharedRequest) error {
	if len(r.Activation) != p.System.Layers*p.System.Experts {
		return fmt.Errorf("the activation has %d values; %d layers of %d experts need %d", len(r.Activation), p.System.Layers, p.System.Experts, p.System.Layers*p.System.Experts)
	}
	r.Prompt, r.Output = min(max(1, r.Prompt), p.Most), min(max(0, r.Output), p.Output)
	p.last = append(p.last, r)
	p.last = p.last[max(0, len(p.last)-p.Window):]
	p.fresh = true
	return nil
}

// Planned reports whether a plan is in force.
func (p *Shared) Planned() bool { return p.plan != nil }

// Adopt goes on from a plan that is in force.
func (p *Shared) Adopt(plan *serverless.Plan) { p.plan = plan }

// SharedVerdict is a decision.
type SharedVerdict struct {
	Plan    *serverless.Plan // in force from now on
	Changed bool
	Reason  string
}

// Decide is the plan for the last requests. Beside an error the plan in force stays, and the error
// is the same until another request comes.
func (p *Shared) Decide() (SharedVerdict, error) {
	if !p.fresh && (p.plan != nil || p.failed != nil) {
		return SharedVerdict{Plan: p.plan}, p.failed
	}
	d, err := p.decided()
	p.fresh, p.failed = false, err
	if err != nil {
		return SharedVerdict{Plan: p.plan}, err
	}
	to := &d.Plan
	reason, worth := p.worth(to)
	if !worth && p.plan != nil {
		// Another number of replicas alone takes less to start.
		if to = p.Rescaled(); to != nil {
			reason, worth = p.worth(to)
			reason = "replicas alone: " + reason
		}
	}
	if !worth {
		return SharedVerdict{Plan: p.plan}, nil
	}
	p.plan = to
	if p.Refused != nil {
		reason = fmt.Sprintf("best effort, as constraint %s is in the way of the SLO; %s", p.Refused.Limit, reason)
	}
	return SharedVerdict{Plan: to, Changed: true, Reason: reason}, nil
}

// decided is Remoe's plan for a request that stands for the last ones.
func (p *Shared) decided() (*Decision, error) {
	r := p.stands()
	if p.Each && len(p.last) > 0 {
		r.Most = r.Prompt
		if err := p.preallocate(r); err != nil {
			return nil, err
		}
	}
	return After(p.System, r, p.Main, p.Mean(), p.Plan, false)
}

// stands is a request as long as the longest of the last ones; before there is one, as the longest.
func (p *Shared) stands() Request {
	r := p.longest()
	if len(p.last) > 0 {
		r.Prompt, r.Output = 1, 0
		for _, one := range p.last {
			r.Prompt, r.Output = max(r.Prompt, one.Prompt), max(r.Output, one.Output)
		}
	}
	return r
}

// Rescaled is the plan in force with the replicas that the last requests want; nil where these are
// the same.
func (p *Shared) Rescaled() *serverless.Plan {
	r := p.stands()
	d := p.System.Expected(p.Mean(), r.Prompt, r.Output)
	to := Rescaled(p.System, p.plan, &d, r, p.Plan.Bound)
	if same(p.plan, to) {
		return nil
	}
	return to
}

// Mean is the activation of the last requests, by their tokens; even before there is one.
func (p *Shared) Mean() []float32 {
	mean := make([]float32, p.System.Layers*p.System.Experts)
	all := 0.0
	for _, r := range p.last {
		all += float64(r.Prompt + r.Output)
	}
	for _, r := range p.last {
		share := float32(float64(r.Prompt+r.Output) / all)
		for i, v := range r.Activation {
			mean[i] += share * v
		}
	}
	if all == 0 {
		for i := range mean {
			mean[i] = 1 / float32(p.System.Experts)
		}
	}
	return mean
}

// worth says why a plan replaces the one in force; false: that stays.
func (p *Shared) worth(to *serverless.Plan) (reason string, worth bool) {
	switch {
	case p.plan == nil:
		return "the first plan", true
	case same(p.plan, to):
		return "", false
	case p.Each: // before there is one, the plan in force stays
		return "the plan of the request that is next", len(p.last) > 0
	case p.plan.Main != to.Main:
		return "the main model has other memory", true
	case len(p.last) == 0:
		return "", false
	}
	now, missedNow := p.cost(p.plan)
	then, missedThen := p.cost(to)
	then += p.starting(to)
	switch n := len(p.last); {
	case missedThen < missedNow:
		return fmt.Sprintf("%d instead of %d of the last %d requests are expected to miss their SLO", missedThen, missedNow, n), true
	case missedThen == missedNow && then <= now*(1-p.Worth):
		return fmt.Sprintf("the last %d requests would have cost %.1f %% less, with what new functions take to start", n, 100*(1-then/now)), true
	}
	return "", false
}

// cost is what the last requests would have cost, in dollars, and how many would have missed their
// SLO, on functions that are warm.
func (p *Shared) cost(of *serverless.Plan) (dollars float64, missed int) {
	for _, r := range p.last {
		d := p.System.Expected(r.Activation, r.Prompt, r.Output)
		b := p.System.Serve(of, &d, 0)
		dollars += b.Cost()
		if b.Prefill > p.SLO.TTFT || b.TPOT() > p.SLO.TPOT {
			missed++
		}
	}
	return dollars, missed
}

// starting is what a plan's functions that are not in force take to start, in dollars.
func (p *Shared) starting(to *serverless.Plan) (dollars float64) {
	f := &p.System.Functions
	for i := range to.Layers {
		is, was := &to.Layers[i], &p.plan.Layers[i]
		more := is.Replicas - was.Replicas
		if !slices.Equal(is.Remote, was.Remote) || is.Memory != was.Memory {
			more = is.Replicas
		}
		if n := is.Size(); n > 0 && more > 0 {
			dollars += float64(more) * f.Run(is.Memory, f.Cold(float64(n)*p.System.Expert))
		}
	}
	return dollars
}

// same reports whether two plans rent the same. What a function without experts would have does not
// count.
func same(a, b *serverless.Plan) bool {
	return a.Main == b.Main && slices.EqualFunc(a.Layers, b.Layers, func(x, y serverless.Layer) bool {
		return slices.Equal(x.Remote, y.Remote) && (x.Size() == 0 || x.Memory == y.Memory && x.Replicas == y.Replicas)
	})
}
