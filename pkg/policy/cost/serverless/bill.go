package serverless

import "github.com/switchyard/switchyard/pkg/policy/meter"

// Bill is what a request took, in seconds and dollars, under a plan.
type Bill struct {
	Prefill, Decode float64 // PT and GT: equations 1 and 4
	Cold            float64 // until all that the first token needs has started: T^cold
	Main, Remote    float64 // dollars while it runs: C^loc and C^rem
	Starting        float64 // dollars while it starts
	Output          int     // tokens after the first
	Calls           float64 // invocations
	Splits          int     // of them for payloads
	// GB·s as pkg/policy/meter has them: of the GPU, of the host, and of functions.
	GPUGBs, HostGBs, FunctionGBs float64
}

// TTFT is the time to the first token of a request that finds nothing started.
func (b *Bill) TTFT() float64 { return b.Prefill + b.Cold }

// TPOT is the time of a token after the first; 0 without any.
func (b *Bill) TPOT() float64 {
	if b.Output == 0 {
		return 0
	}
	return b.Decode / float64(b.Output)
}

// Cost is the objective 10a.
func (b *Bill) Cost() float64 { return b.Main + b.Remote }

// Seconds is how long the request took when all had started.
func (b *Bill) Seconds() float64 { return b.Prefill + b.Decode }

// Mean charges each invocation the mean.
func (s *System) Mean() Draw { t := s.Overhead(); return func() float64 { return t } }

// Serve is the bill of a request by the means of invocations. The plan is decided on so many
// seconds behind the request's arrival, when its functions begin to start.
func (s *System) Serve(p *Plan, d *Demand, decided float64) Bill {
	return s.ServeDrawn(p, d, decided, nil)
}

// ServeDrawn is Serve with drawn invocations, each token's its own where tokens are known.
func (s *System) ServeDrawn(p *Plan, d *Demand, decided float64, t Draw) Bill {
	b := Bill{Output: d.Output}
	for i := range p.Layers {
		s.layer(&b, p.Main, &p.Layers[i], &d.Layers[i], d, t)
	}
	tokens := d.Prompt + d.Output
	b.Main = b.Seconds() * s.Second(p.Main, tokens) // equation 6
	b.GPUGBs, b.HostGBs = meter.Invocation(b.Seconds(), s.GPUMemory(tokens), 1), meter.Invocation(b.Seconds(), p.Main, 1)
	b.Cold, b.Starting = s.Start(p, tokens, decided)
	return b
}

// Part is what a decision on a layer, by its number, adds to a bill: seconds, and dollars of its
// function.
func (s *System) Part(main float64, l *Layer, d *Demand, number int) (b Bill) {
	s.layer(&b, main, l, &d.Layers[number], d, nil)
	return b
}

// layer adds a layer's part: of equations 1 and 4, and of 8 and 9.
func (s *System) layer(b *Bill, main float64, l *Layer, r *Rows, d *Demand, t Draw) {
	draw := t
	if t == nil {
		draw = s.Mean()
	}
	seconds, prefill, calls := s.PrefillLayer(main, l, r, d.Prompt, draw)
	b.Prefill += seconds
	b.Calls += float64(calls)
	b.Splits += max(0, calls-l.Replicas)
	var decode, functions, more float64
	if t == nil || r.Tokens == nil {
		decode, functions, more = s.DecodeLayer(main, l, r, d.Output, draw)
	} else {
		for _, chosen := range r.Tokens {
			one, f := s.DecodeExperts(main, l.Memory, count(chosen, l.Remote), t)
			decode, functions = decode+s.NonExpert(1)+one, functions+f
			if f > 0 {
				more++
			}
		}
	}
	b.Decode += decode
	b.Calls += more
	b.Remote += s.Functions.Run(l.Memory, prefill+functions)
	b.FunctionGBs += meter.Invocation(prefill+functions, l.Memory, 1)
}

// Start is T^cold, and what is paid meanwhile: the main model's for its own start and for the wait
// for functions, which start when they have been decided on, and each replica's for its own. The
// paper leaves these dollars out.
func (s *System) Start(p *Plan, tokens int, decided float64) (seconds, dollars float64) {
	local := 0
	for i := range p.Layers {
		local += s.Experts - p.Layers[i].Size()
	}
	seconds = s.Functions.Cold(s.Fixed + float64(local)*s.Expert)
	for i := range p.Layers {
		l := &p.Layers[i]
		if n := l.Size(); n > 0 {
			one := s.Functions.Cold(float64(n) * s.Expert)
			seconds = max(seconds, decided+one)
			dollars += float64(l.Replicas) * s.Functions.Run(l.Memory, one)
		}
	}
	return seconds, dollars + seconds*s.Second(p.Main, tokens)
}
