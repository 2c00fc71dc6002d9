package serverless

import (
	"container/heap"
	"fmt"
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

// Heavy reports whether one of so many replicas of a layer's prefill has more bytes than an invocation
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

// Partition divides loads among replicas by Longest Processing Time: the largest first, each to
// the replica that has the least so far. Ties go to the lower load, then the lower replica. Its
// makespan is at most 4/3 - 1/(3z) times the least one (Graham, 1969).
func Partition(loads []float64, replicas int) (groups [][]int, makespan float64, err error) {
	if replicas < 1 {
		return nil, 0, fmt.Errorf("loads are to be divided among %d replicas; there must be 1 or more", replicas)
	}
	for i, v := range loads {
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, 0, fmt.Errorf("load %d is %v; it must be finite, and 0 or above", i, v)
		}
	}
	of, sums := partition(loads, descending(loads), replicas)
	groups = make([][]int, replicas)
	for i, r := range of {
		groups[r] = append(groups[r], i)
	}
	return groups, slices.Max(sums), nil
}

// descending are the places of loads, which are no NaN, the largest first.
func descending(loads []float64) []int {
	order := make([]int, len(loads))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch x, y := loads[a], loads[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return a - b
	})
	return order
}

// partition is Partition of loads that can be, in their order: the replica of each, and what each
// replica has.
func partition(loads []float64, order []int, replicas int) (of []int, sums []float64) {
	of, sums = make([]int, len(loads)), make([]float64, replicas)
	h := &lightest{sums: sums, heap: make([]int, replicas)}
	for r := range h.heap {
		h.heap[r] = r
	}
	for _, i := range order {
		least := h.heap[0]
		of[i] = least
		sums[least] += loads[i]
		heap.Fix(h, 0)
	}
	return of, sums
}

// lightest is a heap of replicas, the one that has the least first, then the lower one.
type lightest struct {
	sums []float64
	heap []int
}

func (h *lightest) Len() int { return len(h.heap) }

func (h *lightest) Less(i, j int) bool {
	a, b := h.heap[i], h.heap[j]
	if h.sums[a] != h.sums[b] {
		return h.sums[a] < h.sums[b]
	}
	return a < b
}

func (h *lightest) Swap(i, j int) { h.heap[i], h.heap[j] = h.heap[j], h.heap[i] }
func (h *lightest) Push(any)      {}
func (h *lightest) Pop() any      { return nil }

// SLO is what a request has to keep, in seconds.
type SLO struct{ TTFT, TPOT float64 }

// Limit is a constraint of equation 10 that a plan breaks.
type Limit struct {
	Name        string // such as 10c
	Layer       int    // -1 where it is of none
	Needs, Most float64
}

// String tells a limit for people.
func (l Limit) String() string {
	what := map[string]string{
		"10b": "the first token takes %.4g s, and may take %.4g", "10c": "a further token takes %.4g s, and may take %.4g",
		"10d": "%.4g bytes of memory are none of the %.4g sizes", "10e": "the function needs %.4g bytes, and has %.4g",
		"10f": "the main model's host needs %.4g bytes, and has %.4g", "10g": "an invocation has %.4g bytes, and may have %.4g",
		"10h": "there are decisions on %.4g experts, and %.4g experts", "10i": "there are %.4g replicas, and may be 1 to %.4g",
	}[l.Name]
	text := fmt.Sprintf("constraint %s: "+what, l.Name, l.Needs, l.Most)
	if l.Layer >= 0 {
		text += fmt.Sprintf(" (layer %d)", l.Layer)
	}
	return text
}

// Shape reports whether the plan itself cannot be, whatever the request.
func (l Limit) Shape() bool { return l.Name == "10d" || l.Name == "10h" || l.Name == "10i" }

// rounding is how far rounding may take a number over its limit.
const rounding = 1e-9

// Limits are the constraints 10b to 10i that a plan breaks for a request, the shape of the plan
// (10h, 10i, 10d) first: without one there is no bill.
func (s *System) Limits(p *Plan, d *Demand, o SLO, decided float64) (all []Limit) {
	return s.LimitsOf(p, d, o, func() Bill { return s.Serve(p, d, decided) })
}

// LimitsOf is Limits with a bill of the plan, which is asked for where there can be one.
func (s *System) LimitsOf(p *Plan, d *Demand, o SLO, bill func() Bill) (all []Limit) {
	over := func(name string, layer int, needs, most float64) {
		if needs > most*(1+rounding) {
			all = append(all, Limit{name, layer, needs, most})
		}
	}
	if len(p.Layers) != s.Layers {
		return []Limit{{"10h", -1, float64(len(p.Layers) * s.Experts), float64(s.Layers * s.Experts)}}
	}
	if !slices.Contains(s.Main, p.Main) {
		all = append(all, Limit{"10d", -1, p.Main, float64(len(s.Main))})
	}
	for i := range p.Layers {
		all = append(all, s.shape(&p.Layers[i], i)...)
	}
	if len(all) > 0 {
		return all
	}
	over("10f", -1, s.MainMemory(p.Layers, d.Prompt+d.Output), p.Main)
	for i := range p.Layers {
		l := &p.Layers[i]
		if l.Size() == 0 {
			continue
		}
		over("10e", i, s.FunctionMemory(l, &d.Layers[i]), l.Memory)
		prefill := s.Prefill(p.Main, l, &d.Layers[i])
		for _, one := range prefill.replicas(l.Replicas, s.Mean()) {
			if s.heavy(one) {
				over("10g", i, one.bytes, s.Functions.Payload)
			}
		}
	}
	b := bill()
	over("10b", -1, b.TTFT(), o.TTFT)
	over("10c", -1, b.TPOT(), o.TPOT)
	return all
}

// shape are the limits of a layer's decisions by themselves.
func (s *System) shape(l *Layer, i int) (all []Limit) {
	if len(l.Remote) != s.Experts {
		all = append(all, Limit{"10h", i, float64(len(l.Remote)), float64(s.Experts)})
	}
	if l.Replicas < 1 || l.Replicas > s.Replicas {
		all = append(all, Limit{"10i", i, float64(l.Replicas), float64(s.Replicas)})
	}
	if l.Size() > 0 && !slices.Contains(s.Sizes(), l.Memory) {
		all = append(all, Limit{"10d", i, l.Memory, float64(len(s.Sizes()))})
	}
	return all
}
