package remoe

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// Fit is the time of a token's experts by memory: T(y) = θ1·exp(-θ2·y) + θ3 (section IV-E), for y
// in GB.
type Fit struct {
	Theta1, Theta2, Theta3 float64
	R2                     float64 // the share of the variance that it explains
}

// At is the time with so many GB.
func (f Fit) At(y float64) float64 { return f.Theta1*math.Exp(-f.Theta2*y) + f.Theta3 }

func (f Fit) slope(y float64) float64 { return -f.Theta1 * f.Theta2 * math.Exp(-f.Theta2*y) }

// ErrFit says that times do not fall towards a constant, so that the table is to be used.
var ErrFit = errors.New("times that the curve does not fit")

// leastR2 is from where on a fit counts; assumed.
const leastR2 = 0.8

// FitTimes fits a curve to times by memory, which ascends, by least squares: for each θ2 the other
// two follow, and the best θ2 is searched for.
func FitTimes(memory, seconds []float64) (Fit, error) {
	n := len(memory)
	if n < 3 || len(seconds) != n {
		return Fit{}, fmt.Errorf("%w: there are %d memory sizes and %d times; three of each are the least", ErrFit, n, len(seconds))
	}
	for i, y := range memory {
		if !(y > 0 && seconds[i] > 0) || math.IsInf(y+seconds[i], 0) || i > 0 && y <= memory[i-1] {
			return Fit{}, fmt.Errorf("%w: size %d is %v GB with %v s; sizes ascend, and both are above 0", ErrFit, i, y, seconds[i])
		}
	}
	low, high := 0.01/(memory[n-1]-memory[0]), 20/(memory[1]-memory[0])
	best, left := Fit{}, math.Inf(1)
	try := func(theta2 float64) float64 {
		f, e := fitAt(memory, seconds, theta2)
		if e < left {
			best, left = f, e
		}
		return e
	}
	const grid = 64
	at, ratio := low, math.Pow(high/low, 1./grid)
	for i := range grid + 1 {
		if theta := low * math.Pow(ratio, float64(i)); try(theta) <= left {
			at = theta
		}
	}
	for a, b := at/ratio, at*ratio; b/a > 1+1e-6; {
		third := math.Cbrt(b / a)
		if try(a*third) < try(b/third) {
			b /= third
		} else {
			a *= third
		}
	}
	all := spread(seconds)
	if all <= 1e-18*seconds[0]*seconds[0] || best.Theta1 <= 0 {
		return Fit{}, fmt.Errorf("%w: they do not fall with memory", ErrFit)
	}
	if best.R2 = 1 - left/all; best.R2 < leastR2 {
		return Fit{}, fmt.Errorf("%w: R² is %.3f, and must be %v", ErrFit, best.R2, leastR2)
	}
	return best, nil
}

// spread is the sum of squares about the mean.
func spread(v []float64) (sum float64) {
	mean := 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return sum
}

// fitAt is the best curve for a θ2, whose other two are not negative, and the sum of its squares.
func fitAt(memory, seconds []float64, theta2 float64) (f Fit, squares float64) {
	var n, u1, u2, t1, ut float64
	first := memory[0] // so that no exponential is 0 for all sizes
	for i, y := range memory {
		u := math.Exp(-theta2 * (y - first))
		n, u1, u2, t1, ut = n+1, u1+u, u2+u*u, t1+seconds[i], ut+u*seconds[i]
	}
	f.Theta2 = theta2
	if d := n*u2 - u1*u1; d > 0 {
		f.Theta1 = (n*ut - u1*t1) / d
	}
	if f.Theta3 = (t1 - f.Theta1*u1) / n; f.Theta3 < 0 {
		f.Theta1, f.Theta3 = ut/u2, 0
	}
	f.Theta1 *= math.Exp(theta2 * first)
	for i, y := range memory {
		e := f.At(y) - seconds[i]
		squares += e * e
	}
	return f, squares
}

// mostMemories is how many sizes of the main model Best tries for a number of remote experts.
const mostMemories = 6

// Best is the cheapest plan that breaks no limit, of those that send as many experts of each layer
// away, for a request whose routing is known: what Remoe's steps could do at best without the
// worst case and without mispredictions. Experts leave by their rows, sizes are as the settings say,
// and replicas are Remoe's. It is nil where every one breaks a limit.
func Best(s *serverless.System, r Request, d *serverless.Demand, set Settings) (best *Decision) {
	coarse := max(1, s.Experts/8)
	at := 0
	try := func(away int) {
		if away < 0 || away > s.Experts {
			return
		}
		for _, memory := range memories(s, d, away) {
			m := Main{Away: away, Ratio: float64(away) / float64(s.Experts), Memory: memory}
			to, err := planned(s, r, m, d, set, false)
			if err == nil && len(to.Limits) == 0 && (best == nil || to.Expected.Cost() < best.Expected.Cost()) {
				best, at = to, away
			}
		}
	}
	for away := 0; away <= s.Experts; away += coarse {
		try(away)
	}
	for step := coarse / 2; step > 0; step /= 2 {
		middle := at
		try(middle - step)
		try(middle + step)
	}
	return best
}

// memories are sizes of the main model's host that hold the local experts: from the least up to
// the first from which on no expert is quicker.
func memories(s *serverless.System, d *serverless.Demand, away int) (all []float64) {
	need := s.MainMemory(uniform(s, away, 0, 1).Layers, d.Prompt+d.Output)
	for _, size := range s.Main {
		if size < need {
			continue
		}
		if all = append(all, size); len(all) > 1 && s.Compute(size, 1) >= s.Compute(all[len(all)-2], 1) {
			all = all[:len(all)-1]
			break
		}
	}
	if len(all) <= mostMemories {
		return all
	}
	some := make([]float64, 0, mostMemories)
	for i := range mostMemories {
		some = append(some, all[i*(len(all)-1)/(mostMemories-1)])
	}
	return some
}

// Bound is how many rows may come in the worst case: theorem 1 and its corollary.
type Bound struct {
	// Printed has the paper's form, √(3n)/2 + m·n/K for n tokens, which leaves out that a token
	// has several rows.
	Printed bool
	// Scale multiplies the bound; 0 is 1. One that was measured makes it hold as often as wanted
	// where rows are neither even nor independent.
	Scale float64
}

// Rows are those that m of a layer's experts get of so many tokens, with 95 %: by Hoeffding's
// inequality √(3n/2) more than their share of n rows, and never more than each token can have.
func (b Bound) Rows(tokens, topK, experts, m int) float64 {
	if m <= 0 {
		return 0
	}
	scale := b.Scale
	if scale == 0 {
		scale = 1
	}
	share := float64(m) / float64(experts)
	if b.Printed {
		n := float64(tokens)
		return scale * (math.Sqrt(3*n)/2 + share*n)
	}
	n := float64(tokens * topK)
	return min(scale*(math.Sqrt(1.5*n)+share*n), float64(tokens*min(topK, m)))
}

// most is the largest sum of f over so many experts that have some rows together, each one of at
// least one and at most each, where f grows ever faster from one row on: some have all they can,
// and the others one.
func most(experts int, rows, each float64, f func(rows float64) float64) (sum float64) {
	left, last, of := rows, math.NaN(), 0.0
	for i := range experts {
		if left <= 0 {
			break
		}
		n := min(each, max(min(1, left), left-float64(experts-1-i)))
		if n != last {
			last, of = n, f(n)
		}
		sum += of
		left -= n
	}
	return sum
}

// even is the largest mean of f over tokens that have r of f's rows, in the mean no more than
// mean: the highest chord between two of its points over what is allowed.
func even(f []float64, mean float64) (most float64) {
	for r, v := range f {
		if float64(r) <= mean {
			most = max(most, v)
			continue
		}
		for low := 0; float64(low) <= mean; low++ {
			part := (mean - float64(low)) / float64(r-low)
			most = max(most, f[low]+part*(v-f[low]))
		}
	}
	return most
}

// Layered is Best with a share of remote experts of each layer's own: from Best on, layer after
// layer sends more or fewer experts away as long as that makes the plan cheaper and breaks no
// limit. It is nil where Best is.
func Layered(s *serverless.System, r Request, d *serverless.Demand, set Settings) *Decision {
	best := Best(s, r, d, set)
	if best == nil {
		return nil
	}
	x := layers{System: s, r: r, d: d, set: set, best: best, away: make([]int, s.Layers)}
	for l := range x.away {
		x.away[l] = best.Layers[l].Size()
	}
	for step := max(1, s.Experts/8); step > 0; step /= 2 {
		for l := range x.away {
			if !x.move(l, step) {
				x.move(l, -step)
			}
		}
	}
	return x.best
}

// layers are a plan's shares of remote experts on their way to better ones.
type layers struct {
	*serverless.System
	r    Request
	d    *serverless.Demand
	set  Settings
	away []int
	best *Decision
}

// move has so many more experts of a layer leave, once and again as long as that helps.
func (x *layers) move(l, step int) (helped bool) {
	for {
		away := slices.Clone(x.away)
		if away[l] += step; away[l] < 0 || away[l] > x.Experts || !x.try(away) {
			return helped
		}
		x.away, helped = away, true
	}
}

// try has a plan with such shares take the place of the best one, if it is better: with the host's
// memory that that has, or the least that holds the local experts.
func (x *layers) try(away []int) (better bool) {
	local, all := 0.0, 0
	for _, n := range away {
		local, all = local+float64(x.Experts-n)*x.Expert, all+n
	}
	need := local + x.Token*float64(x.d.Prompt+x.d.Output)
	least := slices.IndexFunc(x.System.Main, func(size float64) bool { return size >= need })
	if least < 0 {
		return false
	}
	sizes := []float64{x.System.Main[least]}
	if x.best.Main.Memory > sizes[0] {
		sizes = append(sizes, x.best.Main.Memory)
	}
	for _, memory := range sizes {
		m := Main{Away: all / x.Layers, Ratio: float64(all) / float64(x.Layers*x.Experts), Memory: memory}
		to, err := layered(x.System, x.r, m, x.d, x.set, false, func(l int) int { return away[l] })
		if err == nil && len(to.Limits) == 0 && to.Expected.Cost() < x.best.Expected.Cost()*(1-worthwhile) {
			x.best, better = to, true
		}
	}
	return better
}

// Rescaled is a plan with the numbers of replicas that a demand wants, its experts and their memory
// left as they are.
func Rescaled(s *serverless.System, p *serverless.Plan, d *serverless.Demand, r Request, b Bound) *serverless.Plan {
	to := &serverless.Plan{Main: p.Main, Layers: slices.Clone(p.Layers)}
	replicas(s, to, d, r, b)
	return to
}

// replicas decides z (section IV-F): as many as the payload needs, then where the cost falls most
// until the TTFT holds by theorem 4, and then as long as that makes the request cheaper.
func replicas(s *serverless.System, p *serverless.Plan, d *serverless.Demand, r Request, b Bound) {
	x := newScaler(s, p, d, b)
	for l := range p.Layers {
		x.payload(l)
	}
	cold, _ := s.Start(p, d.Prompt+d.Output, r.Decided)
	for range s.Layers * s.Replicas {
		if cold+x.worst() <= r.TTFT {
			break
		}
		l, _ := x.potential(true)
		if l < 0 {
			break
		}
		p.Layers[l].Replicas++
	}
	for range s.Layers * s.Replicas {
		l, gain := x.potential(false)
		if l < 0 || gain <= 0 {
			return
		}
		p.Layers[l].Replicas++
	}
}

// scaler adds replicas to a plan.
type scaler struct {
	*serverless.System
	p      *serverless.Plan
	d      *serverless.Demand
	second float64              // H^w
	beside float64              // seconds of a layer's prefill beside its experts
	parts  []serverless.Prefill // of each layer
	one    []float64            // what an expert of each takes at most: N^up rows
	gains  []float64
	of     []int // the replicas that gains are for
}

func newScaler(s *serverless.System, p *serverless.Plan, d *serverless.Demand, b Bound) *scaler {
	n := len(p.Layers)
	x := &scaler{
		System: s, p: p, d: d, second: s.Second(p.Main, d.Prompt+d.Output), beside: s.NonExpert(d.Prompt),
		parts: make([]serverless.Prefill, n), one: make([]float64, n), gains: make([]float64, n), of: make([]int, n),
	}
	rows := b.Rows(d.Prompt, s.TopK, s.Experts, 1)
	for l := range p.Layers {
		one := &p.Layers[l]
		x.parts[l], x.one[l] = s.Prefill(p.Main, one, &d.Layers[l]), s.Compute(one.Memory, rows)+rows*s.Travel()
	}
	return x
}

// payload sets the fewest replicas of which none has more bytes than an invocation takes, unless
// it has one expert alone.
func (x *scaler) payload(l int) {
	one := &x.p.Layers[l]
	for one.Replicas = 1; one.Replicas < x.System.Replicas && x.parts[l].Heavy(one.Replicas); one.Replicas++ {
	}
}

// worst is what prefill takes at most, by theorem 4.
func (x *scaler) worst() (seconds float64) {
	for l := range x.p.Layers {
		seconds += x.worstLayer(l, x.p.Layers[l].Replicas)
	}
	return seconds
}

func (x *scaler) worstLayer(l, z int) float64 {
	part := &x.parts[l]
	seconds := part.Local
	if part.Remote > 0 {
		seconds = max(seconds, replicated(part.Remote, min(part.Remote, x.one[l]), x.Overhead(), z))
	}
	return seconds + 2*x.Move(x.d.Prompt) + x.beside
}

// potential is the layer that gains most by one more replica, ϖ of equation 15; -1 where none may
// have more. With quicker only layers count that the replica makes quicker in the worst case.
func (x *scaler) potential(quicker bool) (best int, gain float64) {
	best = -1
	for l := range x.p.Layers {
		one := &x.p.Layers[l]
		z := one.Replicas
		if one.Size() == 0 || z >= x.System.Replicas || quicker && x.worstLayer(l, z+1) >= x.worstLayer(l, z) {
			continue
		}
		if x.of[l] != z {
			x.of[l], x.gains[l] = z, x.dollars(l, z)-x.dollars(l, z+1)
		}
		if best < 0 || x.gains[l] > gain {
			best, gain = l, x.gains[l]
		}
	}
	return best, gain
}

func (x *scaler) dollars(l, z int) float64 {
	seconds, functions, _ := x.parts[l].Experts(z, x.d.Prompt, x.Mean())
	return (seconds+x.beside)*x.second + x.Functions.Run(x.p.Layers[l].Memory, functions)
}
