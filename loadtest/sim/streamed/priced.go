package streamed

import (
	"cmp"
	"math"
	"slices"

	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

// priced is ours: of some dozen plans the one that would have cost least for the last batches,
// with memory that is kept, of those that would have kept the SLO. A request's own plan knows of
// neither: it counts invocations, and is for one request alone.
type priced struct {
	Promise
	idle   float64
	record bool // it has all experts on the host, and only looks
	stays  bool // its first plan stays
	from   *watch
	watch  watch
	system *serverless.System
	plan   *candidate
	asked  int
}

// watch is what batches were like.
type watch struct {
	kinds [2]kind // of rows of answers alone, and with rows of prompts
	wall  float64 // seconds that they are of
}

// kind are batches of a kind: how many, and their rows, all and by layer and expert.
type kind struct {
	n, rows float64
	loads   []float64
}

// faded is what a look at the last batches leaves of those before.
const faded = 0.9

func (w *watch) take(s *Seen, fade float64) {
	for i := range w.kinds {
		to, from := &w.kinds[i], &s.kinds[i]
		if to.loads == nil {
			to.loads = make([]float64, len(from.loads))
		}
		to.n, to.rows = fade*to.n+from.n, fade*to.rows+from.rows
		for x, n := range from.loads {
			to.loads[x] = fade*to.loads[x] + n
		}
	}
	w.wall = fade*w.wall + s.Seconds
}

// candidate is a plan and what it would have taken.
type candidate struct {
	*Plan
	dollars    float64 // a second
	ttft, tpot float64
}

func (p *priced) Begin(b Before) (*Plan, error) {
	p.system = b.System
	if p.from != nil {
		p.plan = p.best(p.from)
		return p.plan.Plan, nil
	}
	return mixed{}.Begin(b)
}

// looks are the decisions of which one looks for another plan.
const looks = 12

// horizon are the seconds for which a change is to pay, and worth the part of the cost that it has
// to save; both are assumed.
const (
	horizon = 600
	worth   = 0.1
)

func (p *priced) Decide(s *Seen) (*Plan, error) {
	if p.record {
		p.watch.take(s, 1)
		return nil, nil
	}
	fade := 1.0
	if p.asked++; p.asked%looks == 1 {
		fade = faded
	}
	p.watch.take(s, fade)
	if p.asked%looks != 0 || p.from != nil || p.stays && p.plan != nil || p.watch.kinds[0].n == 0 {
		return nil, nil
	}
	best := p.best(&p.watch)
	if p.plan != nil {
		is := p.of(&p.watch, p.plan.Plan)
		late := !p.keeps(&is) && p.keeps(best)
		if !late && (best.dollars+p.starting(p.plan.Plan, best.Plan)/horizon > is.dollars*(1-worth)) {
			return nil, nil
		}
	}
	p.plan = best
	return best.Plan, nil
}

// spare is how much of the SLO a plan may take by the mean of batches: requests differ.
const spare = 0.8

func (p *priced) keeps(c *candidate) bool { return c.ttft <= spare*p.TTFT && c.tpot <= spare*p.TPOT }

// best is the cheapest plan that keeps the SLO, or the quickest.
func (p *priced) best(w *watch) (best *candidate) {
	s := p.system
	order := p.order(w)
	for eighth := range 9 {
		away := s.Experts * eighth / 8
		main := host(s, float64(s.Layers*(s.Experts-away))*s.Expert+s.Token*float64(p.Most+p.Output))
		if main == 0 {
			continue
		}
		for _, memory := range p.sizes(away) {
			for _, z := range []int{1, s.Replicas} {
				c := p.of(w, p.made(order, away, main, memory, z))
				if best == nil || p.better(&c, best) {
					best = &c
				}
			}
		}
	}
	return best
}

func (p *priced) better(a, b *candidate) bool {
	switch x, y := p.keeps(a), p.keeps(b); {
	case x != y:
		return x
	case !x:
		return max(a.tpot/p.TPOT, a.ttft/p.TTFT) < max(b.tpot/p.TPOT, b.ttft/p.TTFT)
	}
	return a.dollars < b.dollars
}

// mostSizes are the sizes of functions that are tried.
const mostSizes = 4

// sizes are those of functions that hold so many experts and the rows of the longest prompt.
func (p *priced) sizes(away int) []float64 {
	if away == 0 {
		return []float64{0}
	}
	s := p.system
	need := float64(away)*s.Expert + s.Token*float64(p.Most*min(s.TopK, away))
	first := slices.IndexFunc(s.Sizes(), func(size float64) bool { return size >= need })
	if first < 0 {
		return nil
	}
	var some []float64
	for i, all := 0, s.Sizes()[first:]; i < mostSizes; i++ {
		some = append(some, all[i*(len(all)-1)/(mostSizes-1)])
	}
	return slices.Compact(some)
}

// order are each layer's experts, those with the fewest rows first.
func (p *priced) order(w *watch) [][]int {
	s := p.system
	all := make([][]int, s.Layers)
	for l := range all {
		for e := range s.Experts {
			all[l] = append(all[l], e)
		}
		rows := func(e int) float64 { return w.kinds[0].loads[l*s.Experts+e] + w.kinds[1].loads[l*s.Experts+e] }
		slices.SortStableFunc(all[l], func(a, b int) int { return cmp.Compare(rows(a), rows(b)) })
	}
	return all
}

func (p *priced) made(order [][]int, away int, main, memory float64, z int) *Plan {
	to := &Plan{Main: main, Layers: make([][]Function, len(order))}
	for l := range order {
		if away > 0 {
			to.Layers[l] = []Function{{Experts: slices.Sorted(slices.Values(order[l][:away])), Memory: memory, Replicas: z}}
		}
	}
	return to
}

// of is what a plan would have taken.
func (p *priced) of(w *watch, plan *Plan) candidate {
	s, c := p.system, candidate{Plan: plan}
	var took [2]float64
	busy, held := 0.0, 0.0 // dollars of functions that compute, a second, and if all did all the time
	for l, functions := range plan.Layers {
		layer := serverless.Layer{Remote: make([]bool, s.Experts), Replicas: 1}
		for _, f := range functions {
			layer.Memory, layer.Replicas = f.Memory, f.Replicas
			for _, e := range f.Experts {
				layer.Remote[e] = true
			}
			held += float64(f.Replicas) * s.Functions.Run(f.Memory, 1)
		}
		for i := range w.kinds {
			seconds, functions := p.layer(&w.kinds[i], plan.Main, &layer, l, i == 0)
			took[i] += seconds
			busy += w.kinds[i].n * s.Functions.Run(layer.Memory, functions) / w.wall
		}
	}
	n := w.kinds[0].n + w.kinds[1].n
	c.tpot = (w.kinds[0].n*took[0] + w.kinds[1].n*took[1]) / math.Max(1, n)
	c.ttft = took[0]/2 + took[1]
	c.dollars = s.Second(plan.Main, 0) + busy + p.idle*max(0, held-busy)
	return c
}

// layer is what a layer takes for a batch of a kind in the mean, with the time of its functions.
func (p *priced) layer(k *kind, main float64, layer *serverless.Layer, l int, answers bool) (seconds, functions float64) {
	if k.n == 0 {
		return 0, 0
	}
	s := p.system
	rows := serverless.Rows{Prefill: make([]float64, s.Experts)}
	for e := range rows.Prefill {
		rows.Prefill[e] = k.loads[l*s.Experts+e] / k.n
	}
	z := layer.Replicas
	if answers {
		z = 1
	}
	parts, each := s.Prefill(main, layer, &rows), int(math.Ceil(k.rows/k.n))
	seconds, functions, _ = parts.Experts(z, each, s.Mean())
	return seconds + s.NonExpert(each), functions
}

// starting are the dollars that a plan's start takes where another one is.
func (p *priced) starting(from, to *Plan) (dollars float64) {
	f := &p.system.Functions
	for l := range to.Layers {
		for i := range to.Layers[l] {
			one := &to.Layers[l][i]
			more := one.Replicas
			if i < len(from.Layers[l]) && one.same(&from.Layers[l][i]) {
				more -= from.Layers[l][i].Replicas
			}
			if more > 0 {
				dollars += float64(more) * f.Run(one.Memory, f.Cold(float64(len(one.Experts))*p.system.Expert))
			}
		}
	}
	if from.Main != to.Main {
		dollars += f.Run(to.Main, f.Cold(to.local(p.system)))
	}
	return dollars
}
