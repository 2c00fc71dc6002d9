package streamed

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/loadtest/sim/requests"
	"github.com/switchyard/switchyard/loadtest/sim/trace"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
	"github.com/switchyard/switchyard/pkg/policy/scale"
	"github.com/switchyard/switchyard/pkg/serverless/rented"
)

// Policy decides what is rented.
type Policy interface {
	// Begin is what is rented from the beginning on, warm.
	Begin(Before) (*Plan, error)
	// Decide is another plan; nil: the last one stays.
	Decide(*Seen) (*Plan, error)
}

// ErrMemory says that a model fits into none of the memory sizes.
var ErrMemory = rented.ErrMemory

// mixed has all experts on the host.
type mixed struct{}

func (mixed) Begin(b Before) (*Plan, error) {
	s := b.System
	p := &serverless.Plan{Main: host(s, s.All()), Layers: make([]serverless.Layer, s.Layers)}
	if p.Main == 0 {
		return nil, ErrMemory
	}
	for l := range p.Layers {
		p.Layers[l].Remote = make([]bool, s.Experts)
	}
	return planOf(p), nil
}

func (mixed) Decide(*Seen) (*Plan, error) { return nil, nil }

// host is the least memory of the main model that holds so much; 0: there is none.
func host(s *serverless.System, bytes float64) float64 {
	i := slices.IndexFunc(s.Main, func(size float64) bool { return size >= bytes })
	if i < 0 {
		return 0
	}
	return s.Main[i]
}

// window is for how many of the last requests Remoe's plans are, as in `up --policy remoe`.
const window = 20

// What a plan by Remoe follows.
const (
	stays    = iota // it is for the requests before the run
	replicas        // its replicas follow the last requests
	follows         // all of it does
)

// planned is Remoe's plan for all requests at once, as the scaler makes it.
type planned struct {
	Promise
	follow    int
	hindsight bool // it is for the run's own requests
	planner   *remoe.Shared
	last      []float32 // activation
}

// Promise is the SLO of requests on what is warm, and the longest request that it is promised to.
type Promise struct {
	serverless.SLO
	Cold         float64 // seconds that plans for a cold start may take beside, as Remoe's are
	Most, Output int
}

func (p *planned) Begin(b Before) (*Plan, error) {
	settled := remoe.SharedSettings{
		System: b.System, Plan: rented.Settled(), SLO: p.SLO, Most: p.Most, Output: p.Output, Decided: rented.Decided, Window: window, Worth: 0.02,
	}
	settled.SLO.TTFT += p.Cold
	from := b.Past
	if p.hindsight {
		from, settled.Window = b.Coming, min(len(b.Coming), 1<<12)
	}
	var err error
	if p.planner, err = remoe.NewShared(settled); err != nil {
		return nil, err
	}
	p.last = shares(b.Tape.Known(from), b.System.Experts)
	if p.last == nil {
		return nil, errors.New("no request comes before the run, so that nothing is known of them; leave some of the trace before it")
	}
	for i, q := range from {
		id := math.MaxInt32 + i // as the tape counts those before
		if p.hindsight {
			id = i
		}
		if err := p.admit(q, own(b.Tape, id, q)); err != nil {
			return nil, err
		}
	}
	v, err := p.planner.Decide()
	if err != nil {
		return nil, err
	}
	return planOf(v.Plan), nil
}

func (p *planned) admit(q trace.Request, activation []float32) error {
	return p.planner.Admit(remoe.SharedRequest{Prompt: q.Context, Output: q.Generated - 1, Activation: activation})
}

func (p *planned) Decide(s *Seen) (*Plan, error) {
	if p.follow == stays {
		return nil, nil
	}
	if a := shares(s.Loads, s.Tape.Experts); a != nil {
		p.last = a
	}
	_, rs := s.Arrived()
	for _, q := range rs {
		if err := p.admit(q, p.last); err != nil {
			return nil, err
		}
	}
	if p.follow == replicas {
		to := p.planner.Rescaled()
		if to == nil {
			return nil, nil
		}
		p.planner.Adopt(to)
		return planOf(to), nil
	}
	v, err := p.planner.Decide()
	if err != nil || !v.Changed {
		return nil, err
	}
	return planOf(v.Plan), nil
}

// moeless has a function of each expert, with the same memory.
type moeless struct {
	memory float64
	system *serverless.System
	main   float64
}

// cv is the coefficient of variation up to which MoEless leaves a layer as it is: the arena's.
const cv = 0.2

func (m *moeless) Begin(b Before) (*Plan, error) {
	m.system, m.main = b.System, b.System.Main[0]
	return m.scaled(b.Tape.Known(b.Past)), nil
}

func (m *moeless) Decide(s *Seen) (*Plan, error) {
	if s.Batches == 0 {
		return nil, nil
	}
	return m.scaled(s.Loads), nil
}

func (m *moeless) scaled(loads []float64) *Plan {
	p, n := apart(m.system, m.main, m.memory), m.system.Experts
	for l := range p.Layers {
		experts := make([]scale.Expert, n)
		for e := range experts {
			experts[e] = scale.Expert{ID: uint32(e), Load: loads[l*n+e], Bytes: uint64(m.memory)}
		}
		for e, one := range scale.MoEless(experts, scale.Settings{CV: cv, MemoryCap: math.MaxUint64, MaxReplicas: m.system.Replicas}).Experts {
			p.Layers[l][e].Replicas = one.Replicas
		}
	}
	return p
}

// Conditions are what policies are made for.
type Conditions struct {
	Promise
	Idle   float64 // the price of memory that is kept, by which ours plans
	Memory float64 // bytes of MoEless' functions
	// Watched, if set, is what ours plans for in hindsight: its plan stays.
	Watched *Watched
}

// Watched is what a run's batches were like.
type Watched struct{ watch }

// Named are the policies by name: MIX, plans by Remoe that stay (for the requests before the run, and
// in hindsight for the run's own), of which only replicas change, and that follow; the same of
// plans that are priced by batches, ours; and MoEless.
func Named(name string, c Conditions) (Policy, error) {
	switch name {
	case "mix":
		return mixed{}, nil
	case "remoe-static":
		return &planned{Promise: c.Promise}, nil
	case "remoe-hindsight":
		return &planned{Promise: c.Promise, hindsight: true}, nil
	case "remoe-replicas":
		return &planned{Promise: c.Promise, follow: replicas}, nil
	case "remoe":
		return &planned{Promise: c.Promise, follow: follows}, nil
	case "priced-static":
		return &priced{Promise: c.Promise, idle: c.Idle, stays: true}, nil
	case "priced-hindsight":
		if c.Watched == nil {
			return nil, errors.New("a plan in hindsight needs a run that was watched")
		}
		return &priced{Promise: c.Promise, idle: c.Idle, from: &c.Watched.watch}, nil
	case "priced":
		return &priced{Promise: c.Promise, idle: c.Idle}, nil
	case "moeless":
		return &moeless{memory: c.Memory}, nil
	}
	return nil, fmt.Errorf("there is no policy %q of a stream; there are mix, remoe, remoe-static, -hindsight and -replicas, priced, priced-static and -hindsight, and moeless", name)
}

// Watch runs requests with all experts on the host, and says what their batches were like.
func Watch(rs, before []trace.Request, t *requests.Tape, s Settings) (*Watched, error) {
	p := &priced{record: true}
	_, err := Run(rs, before, t, s, p)
	return &Watched{p.watch}, err
}
