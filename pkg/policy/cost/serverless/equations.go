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

// replica is equation 3: the time of a replica with rows of its experts. What the payload does
// not take at once is invoked again.
func (s *System) replica(memory float64, rows []float64, t Draw) (r replica) {
	for _, n := range rows {
		r.seconds += s.load(memory, n)
		r.bytes += n * s.Token
	}
	r.experts, r.calls = len(rows), int(math.Ceil(r.bytes/s.Functions.Payload))
	for range r.calls {
		r.seconds += t()
	}
	return r
}

// load is what an expert's rows take in prefill, in a function.
func (s *System) load(memory, rows float64) float64 {
	return s.Compute(memory, rows) + rows*s.Travel()
}

// replicas are those of a layer in prefill: its experts divided by their rows.
func (s *System) replicas(l *Layer, r *Rows, t Draw) (all []replica) {
	var rows, loads []float64
	for e, away := range l.Remote {
		if n := r.Prefill[e]; away && n > 0 {
			rows, loads = append(rows, n), append(loads, s.load(l.Memory, n))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	groups, _ := partition(loads, l.Replicas)
	for _, g := range groups {
		if len(g) == 0 {
			continue
		}
		own := make([]float64, len(g))
		for i, at := range g {
			own[i] = rows[at]
		}
		all = append(all, s.replica(l.Memory, own, t))
	}
	return all
}

// PrefillLocal is the first part of equation 2: what a layer's local experts take.
func (s *System) PrefillLocal(main float64, l *Layer, r *Rows) (seconds float64) {
	for e, away := range l.Remote {
		if !away {
			seconds += s.Compute(main, r.Prefill[e])
		}
	}
	return seconds
}

// PrefillExperts is equation 2, with the time of all replicas together.
func (s *System) PrefillExperts(main float64, l *Layer, r *Rows, prompt int, t Draw) (seconds, functions float64, calls int) {
	seconds = s.PrefillLocal(main, l, r)
	for _, one := range s.replicas(l, r, t) {
		seconds = max(seconds, one.seconds)
		functions += one.seconds
		calls += one.calls
	}
	return seconds + 2*s.Move(prompt), functions, calls
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

// Heavy says whether a replica of a layer's prefill has more bytes than an invocation takes, and
// experts that another replica could have (constraint 10g). One expert's rows can be sent in parts.
func (s *System) Heavy(l *Layer, r *Rows) bool {
	return slices.ContainsFunc(s.replicas(l, r, s.Mean()), s.heavy)
}

func (s *System) heavy(r replica) bool { return r.experts > 1 && r.bytes > s.Functions.Payload }
