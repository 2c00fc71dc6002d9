package serverless

import (
	"errors"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// Model is what the parts of a model weigh, in bytes.
type Model struct {
	Layers, Experts, TopK int
	Expert                float64 // one routed expert: μ(e)
	Fixed                 float64 // all that is none: Σ μ(f)
	Token                 float64 // a row on its way to an expert: D
	Cache                 float64 // a token's keys and values in all layers: Σ a
}

// All are the bytes of all routed experts.
func (m Model) All() float64 { return float64(m.Layers*m.Experts) * m.Expert }

// System is a model on what is rented for it.
type System struct {
	Model
	// Functions is where experts run: local ones as those of functions, with the host's memory.
	Functions cost.Platform
	Main      []float64     // bytes of memory that the main model's host can have, ascending
	GPU       cost.Roofline // computes what is no expert; its overhead is that of an expert there
	GPULayer  float64       // seconds of a layer beside that: launches of kernels
	GPUPrice  float64       // dollars for a GB of its memory and a second: c^g
	Switch    cost.Link     // between the GPU and its host: τ_sw
	Network   float64       // bytes a second between the main model and functions: B
	Replicas  int           // of a function, at most: z^max
	Printed   bool
}

// mostReplicas bounds a function's replicas, each number of which planning tries.
const mostReplicas = 64

// ErrSystem says that a system cannot be.
var ErrSystem = errors.New("a system that cannot serve")

// Check says what is wrong with a system, and what to do.
func (s *System) Check() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrSystem}, args...)...)
	}
	switch {
	case s.Layers < 1 || s.Experts < 1 || s.TopK < 1 || s.TopK > s.Experts:
		return wrong("%d layers send a row to %d of %d experts; there must be 1 of each or more, and no more chosen than there are", s.Layers, s.TopK, s.Experts)
	case s.Replicas < 1 || s.Replicas > mostReplicas:
		return wrong("functions have %d replicas at most; set it to 1 to %d", s.Replicas, mostReplicas)
	case len(s.Main) == 0:
		return wrong("the main model's host has no memory sizes; name one or more")
	}
	for _, n := range []struct {
		what  string
		v     float64
		above bool // 0
	}{
		{"an expert's bytes are", s.Expert, true}, {"the other bytes of the model are", s.Fixed, false}, {"a row's bytes are", s.Token, true},
		{"a token's keys and values are", s.Cache, false}, {"the price of the GPU's memory is", s.GPUPrice, false}, {"the network's bytes a second are", s.Network, true},
		{"the GPU's bytes a second are", s.GPU.Bandwidth, true}, {"the GPU's operations a second are", s.GPU.Rate, true}, {"the bytes of the GPU's elements are", s.GPU.ElementBytes, true},
		{"the GPU's overhead is", s.GPU.Overhead, false}, {"a layer's seconds on the GPU are", s.GPULayer, false},
	} {
		if !(n.v >= 0) || math.IsInf(n.v, 0) || n.above && n.v == 0 {
			return wrong("%s %v; set a finite number of at least 0, and of bytes and speeds one above it", n.what, n.v)
		}
	}
	for i, m := range s.Main {
		if !(m > 0) || math.IsInf(m, 0) || i > 0 && m <= s.Main[i-1] {
			return wrong("size %d of the main model's host is %v bytes; sizes are above 0 and ascend", i, m)
		}
	}
	if err := errors.Join(s.Functions.Check(), s.Switch.Check()); err != nil {
		return wrong("%w", err)
	}
	switch largest := s.Sizes()[len(s.Sizes())-1]; {
	case s.Functions.Memory == 0:
		return wrong("memory costs nothing, so that every plan is as cheap as the others; set a price above 0")
	case s.Functions.Payload < s.Token:
		return wrong("an invocation takes %v bytes, and a row has %v; raise the payload to one row or more", s.Functions.Payload, s.Token)
	case largest < s.Expert+s.Token:
		return wrong("the largest function has %v bytes, and an expert with a row takes %v; add a larger size", largest, s.Expert+s.Token)
	}
	return nil
}

// Sizes are the bytes of memory that functions can have: the paper's M, up to V^e.
func (s *System) Sizes() []float64 { return s.Functions.Sizes }

// NonExpert is τ_f: what a layer takes beside its experts, of so many rows.
func (s *System) NonExpert(rows int) float64 {
	r := s.GPU
	r.Overhead = s.GPULayer
	return r.Seconds(cost.Access{Bytes: s.Fixed / float64(s.Layers), Rows: rows})
}

// Compute is τ_c: what an expert takes for rows, with so much memory. A part of a row is the
// chance of one, so that less than one row takes a part of one row's time.
func (s *System) Compute(memory, rows float64) float64 {
	if rows <= 0 {
		return 0
	}
	low := math.Floor(rows)
	at := s.Functions.Takes(memory, cost.Access{Bytes: s.Expert, Rows: int(low)})
	if rows == low {
		return at
	}
	next := s.Functions.Takes(memory, cost.Access{Bytes: s.Expert, Rows: int(low) + 1})
	return at + (rows-low)*(next-at)
}

// Move is τ_sw: what rows take from the GPU to its host, or back.
func (s *System) Move(rows int) float64 { return s.Switch.Seconds(float64(rows) * s.Token) }

// Travel is 2D/B: what a row takes to a function and back.
func (s *System) Travel() float64 { return 2 * s.Token / s.Network }

// Overhead is the mean of t_rem: what an invocation takes beside its work.
func (s *System) Overhead() float64 { return s.Functions.Fixed + s.Functions.Random }

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

// Demand is what a request asks of a model, as it is expected or as it came.
type Demand struct {
	Prompt int // tokens: N^in
	Output int // tokens after the first: N^out
	Layers []Rows
}

// Rows are those of a layer's experts.
type Rows struct {
	Prefill []float64 // of each expert
	Decode  []float64 // of each expert, over all output tokens
	// Tokens are each output token's experts; nil where they are not known. Then a token's
	// choices count as drawn one by one in proportion to Decode.
	Tokens [][]int
}

// Expected is the demand of an activation (layers, experts), of which each layer sums to 1: a
// token has top-k rows in prefill and in decode.
func (m Model) Expected(activation []float32, prompt, output int) Demand {
	d := Demand{Prompt: prompt, Output: output, Layers: make([]Rows, m.Layers)}
	for l := range d.Layers {
		r := Rows{Prefill: make([]float64, m.Experts), Decode: make([]float64, m.Experts)}
		for e, share := range activation[l*m.Experts : (l+1)*m.Experts] {
			each := min(1, float64(m.TopK)*float64(share)) // rows of a token: one at most
			r.Prefill[e], r.Decode[e] = float64(prompt)*each, float64(output)*each
		}
		d.Layers[l] = r
	}
	return d
}

// slack is for sums that rounding has made too large.
const slack = 1 + 1e-3

// Check says what does not fit a model.
func (d *Demand) Check(m Model) error {
	if d.Prompt < 1 || d.Output < 0 || len(d.Layers) != m.Layers {
		return fmt.Errorf("a request of %d tokens, %d more and %d layers; there must be 1 token or more, and %d layers", d.Prompt, d.Output, len(d.Layers), m.Layers)
	}
	for l, r := range d.Layers {
		if len(r.Prefill) != m.Experts || len(r.Decode) != m.Experts || r.Tokens != nil && len(r.Tokens) != d.Output {
			return fmt.Errorf("layer %d has rows of %d and %d experts and choices of %d tokens; there are %d experts and %d tokens", l, len(r.Prefill), len(r.Decode), len(r.Tokens), m.Experts, d.Output)
		}
		for e := range m.Experts {
			if a, b := r.Prefill[e], r.Decode[e]; !(a >= 0 && a <= float64(d.Prompt)*slack && b >= 0 && b <= float64(d.Output)*slack) {
				return fmt.Errorf("expert %d of layer %d has %v and %v rows; a token gives an expert one, so that they are at most %d and %d", e, l, a, b, d.Prompt, d.Output)
			}
		}
	}
	return nil
}

// Away is how many output tokens have r of their experts among remote ones, for r from 0 to
// top-k.
func (r *Rows) Away(remote []bool, topK, output int) []float64 {
	away := make([]float64, topK+1)
	if r.Tokens != nil {
		for _, chosen := range r.Tokens {
			away[count(chosen, remote)]++
		}
		return away
	}
	some, all := 0.0, 0.0
	for e, n := range r.Decode {
		all += n
		if remote[e] {
			some += n
		}
	}
	p := 0.0
	if all > 0 {
		p = min(1, some/all)
	}
	for k := range away {
		away[k] = float64(output) * binomial(topK, k) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(topK-k))
	}
	return away
}

func count(chosen []int, remote []bool) (n int) {
	for _, e := range chosen {
		if remote[e] {
			n++
		}
	}
	return n
}

func binomial(n, k int) float64 {
	c := 1.0
	for i := range k {
		c *= float64(n-i) / float64(i+1)
	}
	return c
}
