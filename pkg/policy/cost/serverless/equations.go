package serverless

import (
	"math"
	"slices"
)

// Plan is what is decided of a request.
type Plan struct {
	Main   float64 // bytes of the main model's host: w
	Layers []Layer
}

// Layer is what is decided of a layer.
type Layer struct {
	Remote   []bool  // x: which experts are of the layer's function
	Memory   float64 // y: the bytes of the function's replicas
	Replicas int     // z
}

// Size is how many experts are remote.
func (l *Layer) Size() (n int) {
	for _, r := range l.Remote {
		if r {
			n++
		}
	}
	return n
}

// Draw gives what the next invocation takes beside its work.
type Draw func() float64

// replica is what a replica computes in prefill.
type replica struct {
	experts int // with rows
	bytes   float64
	calls   int // invocations: as many as the payload needs
	seconds float64
}

// load is what an expert's rows take in prefill, in a function.
func (s *System) load(memory, rows float64) float64 {
	return s.Compute(memory, rows) + rows*s.Travel()
}

// Prefill is what a layer's experts take of a prompt, as far as the number of replicas does not
// matter: who looks for that number asks for each of them.
type Prefill struct {
	Local  float64 // seconds of the local experts: the first part of equation 2
	Remote float64 // of the remote ones, one after the other
	system *System
	rows   []float64 // of each remote expert that has some
	loads  []float64 // seconds of them
	order  []int     // the largest load first
}

// Prefill is a layer's, whatever replicas it has.
func (s *System) Prefill(main float64, l *Layer, r *Rows) (p Prefill) {
	p.system = s
	for e, away := range l.Remote {
		n := r.Prefill[e]
		switch {
		case !away:
			p.Local += s.Compute(main, n)
		case n > 0:
			p.rows, p.loads = append(p.rows, n), append(p.loads, s.load(l.Memory, n))
			p.Remote += p.loads[len(p.loads)-1]
		}
	}
	p.order = descending(p.loads)
	return p
}

// replicas are so many, of which each has experts with rows, divided by their loads. One takes what
// its experts take one after the other, and its invocations beside (equation 3): what the payload
// does not take at once is invoked again.
func (p *Prefill) replicas(n int, t Draw) []replica {
	if len(p.loads) == 0 {
		return nil
	}
	of, _ := partition(p.loads, p.order, n)
	all := make([]replica, n)
	for i, at := range of {
		one := &all[at]
		one.experts++
		one.seconds += p.loads[i]
		one.bytes += p.rows[i] * p.system.Token
	}
	all = slices.DeleteFunc(all, func(r replica) bool { return r.experts == 0 })
	for i := range all {
		one := &all[i]
		one.calls = int(math.Ceil(one.bytes / p.system.Functions.Payload))
		for range one.calls {
			one.seconds += t()
		}
	}
	return all
}

// Experts is equation 2 with so many replicas, and the time of all of them together.
func (p *Prefill) Experts(replicas, prompt int, t Draw) (seconds, functions float64, calls int) {
	seconds = p.Local
	for _, one := range p.replicas(replicas, t) {
		seconds = max(seconds, one.seconds)
		functions += one.seconds
		calls += one.calls
	}
	return seconds + 2*p.system.Move(prompt), functions, calls
}

// PrefillExperts is equation 2, with the time of all replicas together.
func (s *System) PrefillExperts(main float64, l *Layer, r *Rows, prompt int, t Draw) (seconds, functions float64, calls int) {
	p := s.Prefill(main, l, r)
	return p.Experts(l.Replicas, prompt, t)
}

// PrefillLayer is a layer's part of equation 1.
func (s *System) PrefillLayer(main float64, l *Layer, r *Rows, prompt int, t Draw) (seconds, functions float64, calls int) {
	seconds, functions, calls = s.PrefillExperts(main, l, r, prompt, t)
	return seconds + s.NonExpert(prompt), functions, calls
}

// DecodeExperts is equation 5: what a token takes in a layer's experts when so many of them are
// remote, and the time of the function.
func (s *System) DecodeExperts(main, memory float64, away int, t Draw) (seconds, function float64) {
	local := float64(s.TopK-away) * s.Compute(main, 1)
	if away > 0 {
		function = float64(away)*(s.Compute(memory, 1)+s.Travel()) + t()
	}
	for range away - 1 {
		if s.Printed {
			function += t()
		}
	}
	return max(local, function) + 2*s.Move(s.TopK), function
}

// DecodeLayer is a layer's part of equation 4 over all output tokens.
func (s *System) DecodeLayer(main float64, l *Layer, r *Rows, output int, t Draw) (seconds, functions, calls float64) {
	each := s.NonExpert(1)
	for away, tokens := range r.Away(l.Remote, s.TopK, output) {
		if tokens == 0 {
			continue
		}
		one, f := s.DecodeExperts(main, l.Memory, away, t)
		seconds, functions = seconds+tokens*(each+one), functions+tokens*f
		if away > 0 {
			calls += tokens
		}
	}
	return seconds, functions, calls
}

// GPUMemory is equation 7: bytes of keys, values and rows of all tokens, and of what is no
// expert.
func (s *System) GPUMemory(tokens int) float64 {
	return float64(tokens)*(s.Token+s.Cache) + s.Fixed
}

// Second is what a second of the main model costs: the bracket of equation 6, H^w. Its c^e is
// c^c, the price of all host memory.
func (s *System) Second(main float64, tokens int) float64 {
	gpu := s.Functions.Prices
	gpu.Memory = s.GPUPrice
	return gpu.Run(s.GPUMemory(tokens), 1) + s.Functions.Run(main, 1)
}

// FunctionMemory is the left side of constraint 10e: bytes of a function's experts and of rows.
func (s *System) FunctionMemory(l *Layer, r *Rows) (bytes float64) {
	for e, away := range l.Remote {
		if away {
			bytes += s.Expert + s.Token*r.Prefill[e]
		}
	}
	return bytes
}

// MainMemory is the left side of constraint 10f: bytes of the local experts, and of the rows of
// all tokens.
func (s *System) MainMemory(layers []Layer, tokens int) float64 {
	bytes := s.Token * float64(tokens)
	for i := range layers {
		bytes += float64(s.Experts-layers[i].Size()) * s.Expert
	}
	return bytes
}

// Heavy says whether one of so many replicas of a layer's prefill has more bytes than an invocation
// takes, and experts that another replica could have (constraint 10g). One expert's rows can be sent
// in parts.
func (p *Prefill) Heavy(replicas int) bool {
	return slices.ContainsFunc(p.replicas(replicas, p.system.Mean()), p.system.heavy)
}

func (s *System) heavy(r replica) bool { return r.experts > 1 && r.bytes > s.Functions.Payload }

// Invoked is equation 3 for one expert's rows alone, and its invocations.
func (s *System) Invoked(memory, rows float64, t Draw) (seconds float64, calls int) {
	seconds, calls = s.load(memory, rows), int(math.Ceil(rows*s.Token/s.Functions.Payload))
	for range calls {
		seconds += t()
	}
	return seconds, calls
}
