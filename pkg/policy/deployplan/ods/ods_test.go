package ods

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
)

// draws are numbers of a seed.
type draws uint64

func (d *draws) between(a, b float64) float64 { return a + (b-a)*splitmix.Unit(d.next()) }
func (d *draws) upTo(n int) int               { return int(d.next() % uint64(n)) }
func (d *draws) next() uint64 {
	state := uint64(*d)
	v := splitmix.Next(&state)
	*d = draws(state)
	return v
}

// instance is a small system with rows: few enough options to try all plans.
func (d *draws) instance(layers, experts, sizes, replicas, rows int) (*scatter.System, [][]float64) {
	s := &scatter.System{
		Model: scatter.Model{Layers: layers, Experts: experts, TopK: 1, Expert: 1e6, Intermediate: 1e5, In: d.between(1e3, 1e5), Out: d.between(1e3, 1e5), Next: d.between(0, 1e7)},
		Functions: cost.Platform{
			PerCPU: 1e7, CPU: cost.Roofline{Bandwidth: 1e12, Rate: d.between(1e7, 1e9), ElementBytes: 4}, Parameters: cost.Link{Latency: d.between(0, 0.1), Bandwidth: d.between(1e6, 1e7)},
			Fixed: d.between(0, 0.1), Payload: d.between(1e5, 5e5), Direct: d.between(1e6, 1e7), Replicas: replicas, Prices: cost.Prices{Memory: 1},
		},
		Between: d.between(0, 0.1), Kept: d.upTo(2) == 0, Gathers: d.upTo(2) == 0,
	}
	for j := range sizes {
		s.Functions.Sizes = append(s.Functions.Sizes, 1.2e6+float64(j)*d.between(5e5, 1e6)+float64(rows)*(s.In+s.Out)/float64(replicas))
	}
	loads := make([][]float64, layers)
	for l := range loads {
		for range experts {
			loads[l] = append(loads[l], float64(d.upTo(rows+1)))
		}
		loads[l][d.upTo(experts)]++
	}
	return s, loads
}

// tried is the least cost of all plans within a limit, by one after the other; each layer's are
// judged by the system as of a model of one layer. Nothing here is the planner's.
func tried(s *scatter.System, loads [][]float64, seconds float64, perLayer bool) float64 {
	most := 1
	for _, of := range loads {
		most = max(most, int(slices.Max(of)))
	}
	all := make([][][2]float64, s.Layers) // of each layer: cost and seconds
	least := math.Inf(1)
	for beta := 1; beta <= most; beta++ {
		now := make([][][2]float64, s.Layers)
		for l := range loads {
			now[l] = layerPlans(s, loads[l], beta)
			all[l] = append(all[l], now[l]...)
		}
		if !perLayer {
			least = min(least, cheapestOf(now, s.Beside(), seconds))
		}
	}
	if perLayer {
		least = cheapestOf(all, s.Beside(), seconds)
	}
	return least
}

func layerPlans(s *scatter.System, loads []float64, beta int) (all [][2]float64) {
	alone := *s
	alone.Layers, alone.Head, alone.Tail, alone.Between = 1, 0, 0, 0
	var options []scatter.Function
	for _, m := range s.Functions.Sizes {
		for g := range s.Functions.Replicas {
			options = append(options, scatter.Function{Memory: m, Replicas: g + 1})
		}
	}
	n := int(math.Pow(float64(len(options)), float64(s.Experts)))
	for _, m := range scatter.Modes {
		for code := range n {
			l, most := scatter.Layer{Mode: m}, 1
			for e := range s.Experts {
				l.Experts = append(l.Experts, options[code%len(options)])
				code /= len(options)
				most = max(most, scatter.Rows(loads[e], l.Experts[e].Replicas))
			}
			if m == scatter.Pipelined {
				l.Beta = min(beta, most)
			}
			p := &scatter.Plan{Layers: []scatter.Layer{l}}
			if len(alone.Limits(p, [][]float64{loads}, math.Inf(1))) == 0 {
				b := alone.Serve(p, [][]float64{loads})
				all = append(all, [2]float64{b.Cost, b.Seconds})
			}
		}
	}
	return all
}

// cheapestOf tries all combinations.
func cheapestOf(layers [][][2]float64, seconds, limit float64) float64 {
	if len(layers) == 0 {
		if seconds > limit {
			return math.Inf(1)
		}
		return 0
	}
	least := math.Inf(1)
	for _, p := range layers[0] {
		least = min(least, p[0]+cheapestOf(layers[1:], seconds+p[1], limit))
	}
	return least
}

// cases are the small ones that plans are tried on, by number.
func small(i int) (*scatter.System, [][]float64, float64, Settings) {
	d := draws(splitmix.Mix(uint64(i) + 27))
	s, loads := d.instance(1+d.upTo(2), 1+d.upTo(2), 2, 1+d.upTo(2), 3)
	limit := s.Beside() + float64(s.Layers)*d.between(0.3, 3)
	return s, loads, limit, Settings{PerLayer: d.upTo(2) == 0, Betas: 8, States: 1 << 10}
}

// Must show 5 of the issue: on small cases Exact finds what trying all plans finds.
func TestExact(t *testing.T) {
	n := 1000
	if testkit.Race {
		n = 60
	}
	infeasible, above := 0, 0.0
	for i := range n {
		s, loads, limit, set := small(i)
		want := tried(s, loads, limit, set.PerLayer)
		got, err := Exact(s, loads, limit, set)
		if errors.Is(err, ErrInfeasible) && math.IsInf(want, 1) {
			infeasible++
			continue
		}
		if err != nil || math.Abs(got.Cost-want) > 1e-9*want || math.Abs(got.Gap()) > 1e-9 {
			t.Fatalf("case %d: %+v, %v, want %v", i, got, err, want)
		}
		ours, err := ODS(s, loads, limit, set)
		if errors.Is(err, ErrInfeasible) {
			continue // it may fail where there is a plan of several modes
		}
		if err != nil || ours.Cost < want*(1-1e-9) || ours.Seconds > limit {
			t.Fatalf("case %d: ODS %+v, %v, the least is %v", i, ours, err, want)
		}
		above = max(above, ours.Cost/want-1)
	}
	t.Logf("%d cases, %d of them infeasible; ODS up to %.1f %% above", n, infeasible, 100*above)
	if infeasible == 0 || infeasible > n*3/4 {
		t.Errorf("%d of %d cases are infeasible", infeasible, n)
	}
}

// A plan keeps all constraints, a looser limit or one more memory size never costs more, and the
// same input has the same plan.
func TestPlans(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draws(rapid.Uint64().Draw(t, "seed"))
		s, loads := d.instance(1+d.upTo(3), 1+d.upTo(3), 2, 2, 9)
		limit := s.Beside() + float64(s.Layers)*d.between(0.5, 4)
		set := Settings{PerLayer: d.upTo(2) == 0, Betas: 16, States: 1 << 12}
		for _, plan := range []func(*scatter.System, [][]float64, float64, Settings) (*Result, error){Exact, ODS} {
			r, err := plan(s, loads, limit, set)
			if errors.Is(err, ErrInfeasible) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if broken := s.Limits(&r.Plan, loads, limit); len(broken) > 0 {
				t.Fatalf("%v", broken)
			}
			if again, err := plan(s, loads, limit, set); err != nil || !reflect.DeepEqual(again, r) {
				t.Fatalf("the second time %+v, %v", again, err)
			}
		}
		r, err := Exact(s, loads, limit, set)
		if err != nil {
			return
		}
		loose, err := Exact(s, loads, limit*d.between(1, 2), set)
		if err != nil || loose.Cost > r.Cost*(1+1e-9) {
			t.Fatalf("a looser limit: %+v, %v", loose, err)
		}
		s.Functions.Sizes = append(s.Functions.Sizes, 2*s.Functions.Sizes[1])
		more, err := Exact(s, loads, limit, set)
		if err != nil || more.Cost > r.Cost*(1+1e-9) {
			t.Fatalf("one more size: %+v, %v", more, err)
		}
	})
}

// An infeasible limit names one that can be kept.
func TestInfeasible(t *testing.T) {
	d := draws(1)
	s, loads := d.instance(3, 3, 2, 2, 9)
	var no *Infeasible
	for _, plan := range []func(*scatter.System, [][]float64, float64, Settings) (*Result, error){Exact, ODS} {
		if _, err := plan(s, loads, s.Beside()+1e-3, Default()); !errors.As(err, &no) || no.Least <= no.Limit || no.LayerSeconds <= 0 || !strings.Contains(err.Error(), "raise the limit") {
			t.Fatalf("%v", err)
		}
	}
	if r, err := Exact(s, loads, no.Least, Default()); err != nil || r.Seconds > no.Least {
		t.Errorf("%+v, %v", r, err)
	}
	loads[1][2] = 1e6
	var unfit *Unfit
	if _, err := Exact(s, loads, 1e9, Default()); !errors.As(err, &unfit) || unfit.Layer != 1 || unfit.Expert != 2 || !strings.Contains(err.Error(), "add a larger size") {
		t.Errorf("%v", err)
	}
	loads[1][2] = math.NaN()
	if _, err := ODS(s, loads, 1e9, Default()); !errors.Is(err, scatter.ErrSystem) {
		t.Errorf("%v", err)
	}
	loads[1][2] = 1
	if _, err := ODS(s, loads, 1e9, Settings{}); err == nil || !strings.Contains(err.Error(), "must be 1 or more") {
		t.Errorf("%v", err)
	}
}

// Few states leave a bound below the cost, which is a bound.
func TestAnytime(t *testing.T) {
	d := draws(3)
	layers := make([][]point, 8)
	for l := range layers {
		p := point{latency: 1, cost: 40}
		for range 12 {
			layers[l] = append(layers[l], p)
			p.latency, p.cost = p.latency+d.between(0.1, 1), p.cost-d.between(0.1, 3)
		}
	}
	_, least := fastest(layers)
	for _, times := range []float64{1.2, 2, 3.1} {
		whole, hasty := knapsack(layers, least*times, 1<<20), knapsack(layers, least*times, 2)
		if math.Abs(whole.bound-whole.cost) > 1e-9 || hasty.cost < whole.cost-1e-9 || hasty.bound > whole.cost+1e-9 {
			t.Errorf("%+v, with two states %+v", whole, hasty)
		}
	}
	if knapsack(layers, least*0.99, 10) != nil {
		t.Error("a limit below the fastest is kept")
	}
}

// Minibatches of which only some are tried cost no less than the bound.
func TestBound(t *testing.T) {
	d := draws(5)
	s, loads := d.instance(3, 2, 3, 2, 300)
	set := Settings{Betas: 300, States: 1 << 12}
	all, err := Exact(s, loads, 1e3, set)
	if err != nil {
		t.Fatal(err)
	}
	set.Betas = 9
	some, err := Exact(s, loads, 1e3, set)
	if err != nil || some.Bound > all.Cost*(1+1e-9) || some.Cost < all.Cost*(1-1e-9) || some.Gap() < 0 {
		t.Errorf("%+v of all, %+v of some, %v", all, some, err)
	}
	if !math.IsInf((&Result{Cost: 1}).Gap(), 1) {
		t.Error("a plan without a bound has a gap")
	}
}

func TestBaselines(t *testing.T) {
	d := draws(7)
	s, loads := d.instance(3, 3, 2, 2, 9)
	seen := map[scatter.Mode]bool{}
	for seed := range uint64(20) {
		r, err := Random(s, loads, 1e3, Default(), seed)
		if err != nil || len(s.Limits(&r.Plan, loads, 1e3)) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		for _, l := range r.Plan.Layers {
			seen[l.Mode] = true
		}
	}
	if r, err := Random(s, loads, 0, Default(), 1); err != nil || len(r.Plan.Layers) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	if !seen[scatter.Pipelined] || !seen[scatter.Indirect] {
		t.Errorf("only %v were drawn", seen)
	}
	p := LambdaML(s, scatter.Indirect)
	if f := p.Layers[2].Experts[1]; f.Memory != slices.Max(s.Functions.Sizes) || f.Replicas != 1 {
		t.Errorf("%+v", f)
	}
	c := Cluster{CPU: cost.Roofline{Bandwidth: 1e9, Rate: 1e9, ElementBytes: 4, Overhead: 0.5}, Memory: cost.GB, Price: 2}
	s.Model.Layers = 1
	if b := c.Serve(s, [][]float64{{0, 1, 1}}); math.Abs(b.Seconds-(1+2e6/1e9)) > 1e-12 || math.Abs(b.Cost-2*b.Seconds) > 1e-12 || b.GBs <= b.Seconds {
		t.Errorf("%+v", b)
	}
}

// The paper's shapes; see docs/bo-ods.md.
func BenchmarkExact(b *testing.B) {
	for _, shape := range [][2]int{{12, 4}, {24, 16}} {
		b.Run(fmt.Sprintf("%dx%d", shape[0], shape[1]), func(b *testing.B) {
			d := draws(9)
			s, loads := d.instance(shape[0], shape[1], 14, 8, 10240/shape[1])
			for b.Loop() {
				r, err := Exact(s, loads, 1e6, Default())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(100*r.Gap(), "gap_percent")
			}
		})
	}
}
