package remoe

import (
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/meter"
)

// relaxed is P2 (eq. 13): the memory of all layers' functions as continuous numbers of GB.
type relaxed struct {
	fit    Fit
	layers []part
	price  float64 // c^c, of a GB·s
	main   float64 // H^w, of a second
	eta    float64 // η: prefill as a part of decode
	budget float64 // seconds of a token that functions may take, of all layers together
	high   float64 // the largest size, in GB
}

// part is a layer's part of P2.
type part struct {
	share float64 // s̃: of a token's rows those that are remote
	fixed float64 // seconds of a token beside experts: invocations and rows' ways
	low   float64 // GB that hold its experts and rows: constraint 10e
}

func (p *relaxed) seconds(l *part, y float64) float64 { return l.share*p.fit.At(y) + l.fixed }

func (p *relaxed) slope(l *part, y, main float64) float64 {
	return (1 + p.eta) * (l.share*p.fit.slope(y)*(main+p.price*y) + p.price*p.seconds(l, y))
}

// convex reports whether theorem 2 makes the objective strictly convex: θ2 ≥ 2c/H. With a multiplier
// the price of time only grows, so that it stays so.
func (p *relaxed) convex() bool { return p.main > 0 && p.fit.Theta2 >= 2*p.price/p.main }

// slater reports whether some memory keeps the TPOT with room to spare, so that there is no duality gap.
func (p *relaxed) slater() bool { return p.least() < p.budget }

func (p *relaxed) least() (seconds float64) {
	for i := range p.layers {
		seconds += p.seconds(&p.layers[i], p.high)
	}
	return seconds
}

type solution struct {
	y       []float64 // GB of each layer
	lambda  float64   // the multiplier of the TPOT
	value   float64   // of the objective
	dual    float64   // of the dual: no plan of the curve costs less
	kkt     float64   // what the conditions are off, as a part of the objective
	seconds float64   // of a token
}

// halvings of intervals: of multipliers and of memory.
const halvings = 60

// solve finds the multiplier by bisection: a larger one makes time dearer, and functions larger.
func (p *relaxed) solve() (best solution) {
	if best = p.at(0); best.seconds <= p.budget {
		return best
	}
	low, high := 0.0, max(p.main, 1e-12)
	for range halvings {
		if best = p.at(high); best.seconds <= p.budget {
			break
		}
		low, high = high, 4*high
	}
	for range halvings {
		middle := (low + high) / 2
		if s := p.at(middle); s.seconds <= p.budget {
			high, best = middle, s
		} else {
			low = middle
		}
		if high-low <= 1e-12*high {
			break
		}
	}
	return best
}

// at is the least of the Lagrangian for a multiplier. The derivative by y of a layer's part is
// that of the objective with H^w + λ/(1+η) for H^w.
func (p *relaxed) at(lambda float64) (s solution) {
	s.lambda = lambda
	main := p.main + lambda/(1+p.eta)
	for i := range p.layers {
		l := &p.layers[i]
		y := p.least1(l, main)
		s.y = append(s.y, y)
		s.value += (1 + p.eta) * p.seconds(l, y) * (p.main + p.price*y)
		s.seconds += p.seconds(l, y)
		if slope := p.slope(l, y, main); y > l.low && y < p.high {
			s.kkt = max(s.kkt, math.Abs(slope)*y)
		}
	}
	s.dual = s.value + lambda*(s.seconds-p.budget)
	s.kkt = max(s.kkt, math.Abs(lambda*(s.seconds-p.budget))) / max(s.value, 1e-300)
	return s
}

// least1 is where a layer's convex objective is least.
func (p *relaxed) least1(l *part, main float64) float64 {
	low, high := l.low, p.high
	if p.slope(l, low, main) >= 0 {
		return low
	}
	if p.slope(l, high, main) <= 0 {
		return high
	}
	for range halvings {
		middle := (low + high) / 2
		if p.slope(l, middle, main) < 0 {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// Memory is how the sizes of functions were found.
type Memory struct {
	Fit     Fit
	Table   bool   // the curve did not fit, or is not convex: sizes were searched in the table of times
	Why     string // what was wrong with the curve
	Slater  bool
	Lambda  float64
	KKT     float64 // what the solution is off its conditions, as a part of the objective
	Relaxed float64 // dollars of P2 at its solution, Dual of its dual
	Dual    float64
	// Chosen are dollars of P2 with the sizes that were chosen, by the table of times, and Rounded those
	// with what rounding gave before it was mended; 0 where nothing was rounded.
	Chosen, Rounded float64
	Exact           float64 // dollars of the best sizes there are, by the same table; 0 where they were not sought
}

// tables are P2's dollars and seconds of a token by layer and size; sizes that are too small have
// infinite ones.
type tables struct{ dollars, seconds [][]float64 }

func (p *relaxed) tables(times, sizes []float64) (t tables) {
	for i := range p.layers {
		l := &p.layers[i]
		dollars, seconds := make([]float64, len(sizes)), make([]float64, len(sizes))
		for v, y := range sizes {
			seconds[v] = l.share*times[v] + l.fixed
			dollars[v] = (1 + p.eta) * seconds[v] * (p.main + p.price*y)
			if y < l.low*(1-1e-12) {
				seconds[v], dollars[v] = math.Inf(1), math.Inf(1)
			}
		}
		t.dollars, t.seconds = append(t.dollars, dollars), append(t.seconds, seconds)
	}
	return t
}

func (t tables) sum(choice []int) (dollars, seconds float64) {
	for l, v := range choice {
		dollars, seconds = dollars+t.dollars[l][v], seconds+t.seconds[l][v]
	}
	return dollars, seconds
}

// round takes the smallest size that holds each layer's memory, and then, where that is cheaper
// and keeps the TPOT and the memory's need, the one below.
func round(s solution, t tables, sizes []float64, budget float64) []int {
	choice := make([]int, len(s.y))
	for l, y := range s.y {
		for choice[l] < len(sizes)-1 && (sizes[choice[l]] < y*(1-1e-12) || math.IsInf(t.dollars[l][choice[l]], 1)) {
			choice[l]++
		}
	}
	_, seconds := t.sum(choice)
	for l, v := range choice {
		if v == 0 || t.dollars[l][v-1] >= t.dollars[l][v] {
			continue
		}
		if now := seconds - t.seconds[l][v] + t.seconds[l][v-1]; now <= budget {
			choice[l], seconds = v-1, now
		}
	}
	return choice
}

// memory chooses the sizes of functions for a plan whose main model and remote experts are chosen.
func memory(s *serverless.System, p *serverless.Plan, d *serverless.Demand, o serverless.SLO, by Sizing, exact bool) (m Memory, err error) {
	sizes := make([]float64, len(s.Sizes()))
	times := make([]float64, len(sizes))
	for v, size := range s.Sizes() {
		sizes[v], times[v] = size/cost.GB, float64(s.TopK)*s.Compute(size, 1)
	}
	x := problem(s, p, d, o, sizes)
	if len(x.layers) == 0 {
		return m, nil
	}
	t := x.tables(times, sizes)
	choice, err := x.sized(&m, t, times, sizes, by)
	if err != nil {
		return m, err
	}
	m.Chosen, _ = t.sum(choice)
	at := 0
	for l := range p.Layers {
		if p.Layers[l].Size() > 0 {
			p.Layers[l].Memory = s.Sizes()[choice[at]]
			at++
		}
	}
	if exact {
		if best, _, err := leastSizes(t, x.budget); err == nil {
			m.Exact, _ = t.sum(best)
		}
	}
	return m, nil
}

// sized are the sizes of layers, found as is asked for, and how they were found. Where the curve is of
// no use the table is searched.
func (p *relaxed) sized(m *Memory, t tables, times, sizes []float64, by Sizing) (choice []int, err error) {
	if p.fit, err = FitTimes(sizes, times); err == nil && !p.convex() {
		err = fmt.Errorf("θ2 is %.3g, below the %.3g from which theorem 2 makes P2 convex", p.fit.Theta2, 2*p.price/p.main)
	}
	if m.Table = err != nil; m.Table {
		m.Why = err.Error()
	}
	if m.Table || by == Least {
		choice, m.Dual, err = leastSizes(t, p.budget)
		m.Relaxed = m.Dual
		return choice, err
	}
	best := p.solve()
	m.Fit, m.Slater, m.Lambda, m.KKT, m.Relaxed, m.Dual = p.fit, p.slater(), best.lambda, best.kkt, best.value, best.dual
	choice = round(best, t, sizes, p.budget)
	m.Rounded, _ = t.sum(choice)
	if by == Rounded {
		return choice, nil
	}
	if mended := t.mended(slices.Clone(choice), p.budget); mended != nil {
		return mended, nil
	}
	return choice, nil
}

// problem is P2 of the layers that have remote experts.
func problem(s *serverless.System, p *serverless.Plan, d *serverless.Demand, o serverless.SLO, sizes []float64) *relaxed {
	x := &relaxed{
		price: s.Functions.Memory, main: s.Second(p.Main, d.Prompt+d.Output), budget: o.TPOT, high: sizes[len(sizes)-1],
	}
	for l := range p.Layers {
		one, r := &p.Layers[l], &d.Layers[l]
		away := r.Away(one.Remote, s.TopK, max(1, d.Output))
		x.budget -= s.NonExpert(1) + 2*s.Move(s.TopK)
		if one.Size() == 0 {
			x.budget -= float64(s.TopK) * s.Compute(p.Main, 1)
			continue
		}
		rows, calls, all := 0.0, 0.0, 0.0
		for n, tokens := range away {
			rows, all = rows+float64(n)*tokens, all+tokens
			if n > 0 {
				calls += tokens
			}
		}
		if s.Printed {
			calls = rows
		}
		rows, calls = rows/all, calls/all
		x.layers = append(x.layers, part{
			share: rows / float64(s.TopK), fixed: calls*s.Overhead() + rows*s.Travel(), low: min(x.high, s.FunctionMemory(one, r)/cost.GB),
		})
	}
	b := s.Serve(p, d, 0)
	if b.Decode > 0 {
		x.eta = b.Prefill / b.Decode
	}
	return x
}

// The paper's baselines (section V-C), each with the memory that makes it the cheapest.

// whole is a model that is one function: how it computes, and what memory it takes.
type whole struct {
	*serverless.System
	expert    func(rows float64) float64 // seconds of an expert
	other     func(rows int) float64     // seconds of a layer beside its experts
	gpu, host float64                    // bytes
}

// CPU serves a request with the whole model on processors; false where no memory holds it.
func CPU(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	need := s.GPUMemory(d.Prompt+d.Output) + s.All()
	return cheapest(s.Main, need, func(memory float64) serverless.Bill {
		device := s.Functions.Device(memory) // attention's heads and rows use all processors
		return whole{
			System: s, host: memory,
			expert: func(rows float64) float64 { return s.Compute(memory, rows) },
			other: func(rows int) float64 {
				return device.Seconds(cost.Access{Bytes: s.Fixed / float64(s.Layers), Rows: rows})
			},
		}.serve(d)
	})
}

// GPU serves a request with the whole model on the GPU, and no other memory.
func GPU(s *serverless.System, d *serverless.Demand) serverless.Bill {
	return onGPU(s, d, s.GPUMemory(d.Prompt+d.Output)+s.All(), 0)
}

// Fetch is what all ways to offload experts could be at best: the GPU's time without a miss, all
// experts in the host's memory, and those of a token on the GPU too. It is false where no memory
// holds the experts.
func Fetch(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	tokens := d.Prompt + d.Output
	gpu := s.GPUMemory(tokens) + float64(s.Layers*s.TopK)*s.Expert
	return cheapest(s.Main, s.All()+s.Token*float64(tokens), func(memory float64) serverless.Bill { return onGPU(s, d, gpu, memory) })
}

// Mix has all experts on the host, and all else on the GPU: a plan without functions.
func Mix(s *serverless.System, d *serverless.Demand) (serverless.Bill, bool) {
	p := uniform(s, 0, s.Sizes()[0], 1)
	return cheapest(s.Main, s.MainMemory(p.Layers, d.Prompt+d.Output), func(memory float64) serverless.Bill {
		p.Main = memory
		return s.Serve(p, d, 0)
	})
}

// cheapest is the least bill of the sizes that hold so much.
func cheapest(sizes []float64, need float64, serve func(memory float64) serverless.Bill) (best serverless.Bill, fits bool) {
	for _, memory := range sizes {
		if memory < need {
			continue
		}
		if b := serve(memory); !fits || b.Cost() < best.Cost() {
			best, fits = b, true
		}
	}
	return best, fits
}

func onGPU(s *serverless.System, d *serverless.Demand, gpu, host float64) serverless.Bill {
	return whole{
		System: s, gpu: gpu, host: host, other: s.NonExpert,
		expert: func(rows float64) float64 {
			if rows <= 0 {
				return 0
			}
			return s.GPU.Seconds(cost.Access{Bytes: s.Expert, Rows: int(max(1, rows))}) * min(1, rows)
		},
	}.serve(d)
}

// serve is the bill of a request.
func (w whole) serve(d *serverless.Demand) serverless.Bill {
	b := serverless.Bill{Output: d.Output}
	for l := range d.Layers {
		b.Prefill += w.other(d.Prompt)
		for _, n := range d.Layers[l].Prefill {
			b.Prefill += w.expert(n)
		}
	}
	b.Decode = float64(d.Output*w.Layers) * (w.other(1) + float64(w.TopK)*w.expert(1))
	gpu := w.Functions.Prices
	gpu.Memory = w.GPUPrice
	second := gpu.Run(w.gpu, 1) + w.Functions.Run(w.host, 1)
	b.Main = b.Seconds() * second
	b.Cold = w.Functions.Cold(w.Fixed + w.All())
	b.Starting = b.Cold * second
	b.GPUGBs, b.HostGBs = meter.Invocation(b.Seconds(), w.gpu, 1), meter.Invocation(b.Seconds(), w.host, 1)
	return b
}
