package remoe

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
)

const mb = 1 << 20

// system has experts like those of GPT2-moe.
func system(layers, experts int) *serverless.System {
	s := &serverless.System{
		Model: serverless.Model{Layers: layers, Experts: experts, TopK: 2, Expert: 18 * mb, Fixed: float64(layers) * 20 * mb, Token: 3072, Cache: float64(layers) * 6144},
		Functions: cost.Platform{
			PerCPU: cost.GB, CPU: cost.Roofline{Bandwidth: 8e9, Rate: 40e9, ElementBytes: 4}, Threads: 1,
			Container: 3, Parameters: cost.Link{Bandwidth: 1e9}, Fixed: 0.0005, Random: 0.0005, Payload: 6 * mb, Prices: cost.Prices{Memory: 16.67e-6},
		},
		GPU: cost.Roofline{Bandwidth: 1.8e12, Rate: 200e12, ElementBytes: 4}, GPULayer: 1e-4, GPUPrice: 50e-6,
		Switch: cost.Link{Latency: 1e-5, Bandwidth: 25e9}, Network: 1.25e9, Replicas: 2,
	}
	for m := 200.; m <= 2000; m += 100 {
		s.Functions.Sizes = append(s.Functions.Sizes, m*mb)
	}
	for m := 200.; m <= 5000; m += 100 {
		s.Main = append(s.Main, m*mb)
	}
	return s
}

// little is one of which all plans can be tried.
func little() *serverless.System {
	s := system(2, 3)
	s.Functions.Sizes, s.Main = []float64{100 * mb, 700 * mb}, []float64{100 * mb, 300 * mb, 600 * mb}
	return s
}

// drawn is a request whose tokens choose experts by uneven odds.
func drawn(t *rapid.T, s *serverless.System, prompt, output int) serverless.Demand {
	d := serverless.Demand{Prompt: prompt, Output: output, Layers: make([]serverless.Rows, s.Layers)}
	for l := range d.Layers {
		r := serverless.Rows{Prefill: make([]float64, s.Experts), Decode: make([]float64, s.Experts), Tokens: make([][]int, output)}
		for i := range prompt + output {
			a := rapid.IntRange(0, s.Experts-1).Draw(t, "a")
			b := (a + rapid.IntRange(1, s.Experts-1).Draw(t, "b")) % s.Experts
			for _, e := range []int{a, b} {
				if i < prompt {
					r.Prefill[e]++
				} else {
					r.Decode[e]++
				}
			}
			if i >= prompt {
				r.Tokens[i-prompt] = []int{a, b}
			}
		}
		d.Layers[l] = r
	}
	return d
}

func shares(d *serverless.Demand, s *serverless.System) (a []float32) {
	for _, r := range d.Layers {
		for _, n := range r.Prefill {
			a = append(a, float32(n/float64(d.Prompt*s.TopK)))
		}
	}
	return a
}

// The corollary's printed form is below what even routing already gives: of 1,000 tokens to 2 of 8
// experts each has 250 rows. Hoeffding's is above it.
func TestBound(t *testing.T) {
	for _, tc := range []struct {
		b    Bound
		m    int
		want float64
	}{
		{Bound{Printed: true}, 1, 125 + math.Sqrt(3000)/2}, {Bound{}, 1, 250 + math.Sqrt(3000)}, {Bound{}, 8, 2000}, {Bound{}, 0, 0},
		{Bound{Scale: 0.5}, 1, 125 + math.Sqrt(3000)/2},
	} {
		if got := tc.b.Rows(1000, 2, 8, tc.m); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%+v: %v, want %v", tc, got, tc.want)
		}
	}
}

// The worst case of rows is no less than any case there is: of means of a function over tokens, and
// of sums over experts.
func TestWorstCases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SliceOfN(rapid.Float64Range(0, 10), 2, 5).Draw(t, "f")
		rows := rapid.SliceOfN(rapid.IntRange(0, len(f)-1), 1, 8).Draw(t, "rows")
		mean, sum := 0.0, 0.0
		for _, r := range rows {
			mean, sum = mean+float64(r)/float64(len(rows)), sum+f[r]/float64(len(rows))
		}
		if got := even(f, mean); got < sum-1e-9 || got > slices.Max(f)+1e-9 {
			t.Fatalf("%v of %v tokens: %v, and there is %v", f, rows, got, sum)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		read, row := rapid.Float64Range(0, 5).Draw(t, "read"), rapid.Float64Range(0, 2).Draw(t, "row")
		f := func(n float64) float64 { return max(read, n*row) }
		have := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 6).Draw(t, "rows")
		all, sum := 0.0, 0.0
		for _, n := range have {
			all += float64(n)
			if n > 0 {
				sum += f(float64(n))
			}
		}
		if got := most(len(have), all, 6, f); got < sum-1e-9 {
			t.Fatalf("%v, and there is %v", got, sum)
		}
	})
}

// The memory of the main model never shrinks as fewer experts leave it, and it gets no slower. A
// request whose rows keep to the bound takes no longer than the worst case, whatever the routing.
func TestPreallocate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := system(rapid.IntRange(1, 3).Draw(t, "layers"), rapid.IntRange(2, 6).Draw(t, "experts"))
		prompt, output := rapid.IntRange(1, 30).Draw(t, "prompt"), rapid.IntRange(1, 20).Draw(t, "output")
		r := Request{Most: prompt, Prompt: prompt, Output: output, SLO: serverless.SLO{TTFT: 1, TPOT: 1}}
		d := drawn(t, s, prompt, output)
		before := 0.0
		for away := s.Experts; away >= 0; away-- {
			m, fits := worst(s, r, Settings{}, away)
			if !fits {
				t.Fatalf("%d experts do not fit", away)
			}
			if m.Memory < before && away > 0 {
				t.Fatalf("with %d experts remote the memory is %v, before %v", away, m.Memory, before)
			}
			before = m.Memory
			p := uniform(s, away, s.Sizes()[len(s.Sizes())-1], 1)
			p.Main = m.Memory
			within, prefilled := true, true
			for l := range d.Layers {
				remote, some, local := 0.0, 0.0, 0.0
				for e := range s.Experts {
					if n := d.Layers[l].Prefill[e]; e < away {
						remote, some = remote+d.Layers[l].Decode[e], some+n
					} else {
						local += n
					}
				}
				within = within && remote <= (Bound{}).Rows(output, 2, s.Experts, away)
				prefilled = prefilled && local <= (Bound{}).Rows(prompt, 2, s.Experts, s.Experts-away) && some <= (Bound{}).Rows(prompt, 2, s.Experts, away)
			}
			b := s.Serve(p, &d, 0)
			if within && b.TPOT() > m.TPOT*(1+1e-9) {
				t.Fatalf("with %d experts remote TPOT is %v, and %v in the worst case", away, b.TPOT(), m.TPOT)
			}
			if away == 0 && prefilled && b.TTFT() > m.TTFT*(1+1e-9) {
				t.Fatalf("TTFT is %v, and %v in the worst case", b.TTFT(), m.TTFT)
			}
		}
	})
}

// Times that are of the curve give it back. The paper's θ2 make its problems convex (section IV-E).
func TestFitTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Fit{rapid.Float64Range(0.01, 10).Draw(t, "θ1"), rapid.Float64Range(0.5, 8).Draw(t, "θ2"), rapid.Float64Range(0.01, 10).Draw(t, "θ3"), 1}
		var y, s []float64
		for m := 0.2; m < 2; m += 0.1 {
			y, s = append(y, m), append(s, want.At(m))
		}
		got, err := FitTimes(y, s)
		if err != nil || got.R2 < 0.9999 {
			t.Fatalf("%+v for %+v: %v", got, want, err)
		}
		for i := range y {
			if math.Abs(got.At(y[i])-s[i]) > 0.01*s[i] {
				t.Fatalf("%+v for %+v", got, want)
			}
		}
	})
	for want, of := range map[string][2][]float64{
		"do not fall with memory": {{1, 2, 3, 4}, {1, 1, 1, 1}},
		"do not fall":             {{1, 2, 3, 4}, {1, 2, 3, 4}},
		"R² is":                   {{1, 2, 3, 4, 5, 6}, {2, 1, 2, 1, 2, 0.5}},
		"three of each":           {{1, 2}, {2, 1}},
		"size 1 is 1 GB":          {{1, 1, 2}, {3, 2, 1}},
		"size 2 is 3 GB with NaN": {{1, 2, 3}, {3, 2, math.NaN()}},
	} {
		if f, err := FitTimes(of[0], of[1]); !errors.Is(err, ErrFit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v, want %q", f, err, want)
		}
	}
	deepseek := relaxed{fit: Fit{Theta2: 2.4363}, price: 1, main: 8}
	gpt2 := relaxed{fit: Fit{Theta2: 11.8665}, price: 1, main: 2 / 2.72}
	if !deepseek.convex() || !gpt2.convex() || (&relaxed{fit: Fit{Theta2: 1}, price: 1, main: 1}).convex() {
		t.Error("theorem 2 is told otherwise")
	}
}

// drawnProblem is P2 with convex parts.
func drawnProblem(t *rapid.T) (*relaxed, []float64) {
	x := &relaxed{
		fit:   Fit{Theta1: rapid.Float64Range(0.1, 3).Draw(t, "θ1"), Theta2: rapid.Float64Range(1, 5).Draw(t, "θ2"), Theta3: rapid.Float64Range(0.01, 1).Draw(t, "θ3")},
		price: rapid.Float64Range(0.1, 1).Draw(t, "price"), eta: rapid.Float64Range(0, 0.5).Draw(t, "η"), high: 2,
	}
	x.main = rapid.Float64Range(2*x.price, 20*x.price).Draw(t, "main")
	for range rapid.IntRange(1, 4).Draw(t, "layers") {
		x.layers = append(x.layers, part{rapid.Float64Range(0.01, 1).Draw(t, "share"), rapid.Float64Range(0, 0.1).Draw(t, "fixed"), rapid.Float64Range(0.2, 1).Draw(t, "low")})
	}
	x.budget = x.least() * rapid.Float64Range(1.001, 2).Draw(t, "budget")
	return x, []float64{0.5, 0.8, 1, 1.3, 1.7, 2}
}

// brute is the least of all choices of sizes.
func brute(x tables, budget float64) float64 {
	least := math.Inf(1)
	var try func(l int, dollars, seconds float64)
	try = func(l int, dollars, seconds float64) {
		if l == len(x.dollars) {
			if seconds <= budget {
				least = min(least, dollars)
			}
			return
		}
		for v := range x.dollars[l] {
			try(l+1, dollars+x.dollars[l][v], seconds+x.seconds[l][v])
		}
	}
	try(0, 0, 0)
	return least
}

// The dual of P2 is no more than its solution, which keeps the TPOT and, by theorem 3, the
// conditions of an optimum. The best sizes are those of all choices; they cost no less than the
// dual, and what rounding gives costs no less than they do.
func TestDual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, sizes := drawnProblem(t)
		times := make([]float64, len(sizes))
		for v, y := range sizes {
			times[v] = x.fit.At(y)
		}
		if !x.convex() || !x.slater() {
			t.Fatal("the problem is not convex, or has no room")
		}
		best, table := x.solve(), x.tables(times, sizes)
		if best.seconds > x.budget*(1+1e-9) || best.kkt > 1e-5 || best.dual > best.value*(1+1e-9) || best.value-best.dual > 1e-4*best.value {
			t.Fatalf("%+v with a budget of %v", best, x.budget)
		}
		choice, bound, err := leastSizes(table, x.budget)
		if err != nil {
			t.Fatal(err)
		}
		exact, seconds := table.sum(choice)
		if want := brute(table, x.budget); math.Abs(exact-want) > 1e-9*want || seconds > x.budget || bound > exact*(1+1e-9) {
			t.Fatalf("%v dollars in %v s, want %v; the bound is %v", exact, seconds, want, bound)
		}
		near := round(best, table, sizes, x.budget)
		mended, within := table.sum(table.mended(slices.Clone(near), x.budget))
		rounded, took := table.sum(near)
		if exact > mended*(1+1e-9) || mended > rounded*(1+1e-9) || within > x.budget {
			t.Fatalf("exact %v, mended %v in %v of %v s, rounded %v", exact, mended, within, x.budget, rounded)
		}
		if best.dual > exact*(1+1e-6) || exact > rounded*(1+1e-9) || took > x.budget*(1+1e-9) {
			t.Fatalf("dual %v, exact %v, rounded %v in %v of %v s", best.dual, exact, rounded, took, x.budget)
		}
	})
}

// Exchanges find what rounding does not: sizes by the table where the curve is off it.
func TestMended(t *testing.T) {
	x := tables{
		[][]float64{{5, 3, 4}, {5, 3, 4}, {math.Inf(1), 9, 1}},
		[][]float64{{4, 3, 1}, {4, 3, 1}, {math.Inf(1), 2, 5}},
	}
	for _, tc := range []struct {
		budget float64
		want   []int
	}{{11, []int{1, 1, 2}}, {10, []int{1, 2, 2}}, {8, []int{2, 2, 2}}, {4, []int{2, 2, 1}}, {3, nil}} {
		for _, from := range [][]int{{0, 0, 1}, {2, 2, 2}, {1, 0, 2}} {
			got := x.mended(slices.Clone(from), tc.budget)
			if tc.want == nil && got != nil || tc.want != nil && brute(x, tc.budget) != dollarsOf(x, got) {
				t.Errorf("with %v s from %v: %v, want as cheap as %v", tc.budget, from, got, tc.want)
			}
		}
	}
}

func dollarsOf(x tables, choice []int) float64 {
	if choice == nil {
		return math.Inf(1)
	}
	dollars, _ := x.sum(choice)
	return dollars
}

func TestNoSizes(t *testing.T) {
	x := tables{[][]float64{{1, 2}}, [][]float64{{5, 4}}}
	if _, _, err := leastSizes(x, 3); !errors.Is(err, ErrSizes) {
		t.Errorf("%v", err)
	}
}

// A plan keeps the limits for what was foretold, or the request is refused with what could be kept;
// and the same request has the same plan. All plans of a little system, tried one by one, show that
// none is cheaper than Exact's, which loosening the SLO never makes dearer.
func TestDecide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := little()
		prompt, output := rapid.IntRange(4, 40).Draw(t, "prompt"), rapid.IntRange(1, 8).Draw(t, "output")
		d := drawn(t, s, prompt, output)
		mix, fits := Mix(s, &d)
		if !fits {
			t.Fatal("the experts do not fit")
		}
		times := rapid.Float64Range(0.9, 4).Draw(t, "times")
		r := Request{Most: prompt + 10, Prompt: prompt, Output: output, SLO: serverless.SLO{TTFT: times * mix.TTFT(), TPOT: times * mix.TPOT()}}
		set := Settings{Step: 0.3}
		got, err := Decide(s, r, shares(&d, s), set)
		again, _ := Decide(s, r, shares(&d, s), set)
		if !reflect.DeepEqual(got, again) {
			t.Fatal("the same request has another plan")
		}
		var refused *Infeasible
		switch {
		case errors.As(err, &refused):
			if refused.Limit == "" || refused.TTFT <= 0 || refused.TPOT <= 0 || refused.TTFT <= r.TTFT && refused.TPOT <= r.TPOT && s.Experts < 2 {
				t.Fatalf("%+v", refused)
			}
		case err != nil:
			t.Fatal(err)
		case len(got.Limits) > 0:
			t.Fatalf("%v", got.Limits)
		}
		exact, err := Exact(s, &d, r.SLO, 0)
		if err != nil {
			t.Fatal(err)
		}
		known := Best(s, r, &d, set)
		own := Layered(s, r, &d, set)
		if (own == nil) != (known == nil) || own != nil && (own.Expected.Cost() > known.Expected.Cost() || len(own.Limits) > 0) {
			t.Fatalf("with a share for each layer %+v, with one for all %+v", own, known)
		}
		known = own
		if exact == nil {
			if known != nil {
				t.Fatal("there is a plan that Exact has not found")
			}
			return
		}
		least := s.Serve(exact, &d, 0)
		if len(s.Limits(exact, &d, r.SLO, 0)) > 0 || known != nil && known.Expected.Cost() < least.Cost()*(1-1e-9) {
			t.Fatalf("exact %v, best %+v", least.Cost(), known)
		}
		looser, err := Exact(s, &d, serverless.SLO{TTFT: 1.5 * r.TTFT, TPOT: 1.5 * r.TPOT}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if b := s.Serve(looser, &d, 0); b.Cost() > least.Cost()*(1+1e-12) {
			t.Fatalf("%v with a looser SLO, %v before", b.Cost(), least.Cost())
		}
	})
}

func TestRefused(t *testing.T) {
	s := system(2, 4)
	even := slices.Repeat([]float32{0.25}, 8)
	r := Request{Most: 20, Prompt: 10, Output: 10, SLO: serverless.SLO{TTFT: 20, TPOT: 1e-6}}
	_, err := Decide(s, r, even, Settings{})
	var refused *Infeasible
	if !errors.As(err, &refused) || refused.Limit != "10c" || !strings.Contains(err.Error(), "with a TPOT of 0.0097") {
		t.Errorf("%v", err)
	}
	for _, slo := range []serverless.SLO{{TTFT: refused.TTFT, TPOT: refused.TPOT}, {TTFT: upwards(refused.TTFT), TPOT: upwards(refused.TPOT)}} {
		if r.SLO = slo; refused.TTFT > 0 {
			if _, err := Decide(s, r, even, Settings{}); err != nil {
				t.Errorf("what could be kept is refused: %v", err)
			}
		}
	}
	s.Main = []float64{mb}
	if _, err := Decide(s, r, even, Settings{}); !errors.As(err, &refused) || refused.Limit != "10f" || !strings.Contains(err.Error(), "add larger memory sizes") {
		t.Errorf("%v", err)
	}
	if _, err := Exact(system(12, 8), nil, r.SLO, 0); !errors.Is(err, ErrTooMany) {
		t.Errorf("%v", err)
	}
	if _, err := After(system(2, 4), r, Main{}, even[:3], Settings{}, false); err == nil || !strings.Contains(err.Error(), "the activation has 3 values") {
		t.Errorf("%v", err)
	}
	for want, r := range map[string]Request{
		"has 0 tokens": {}, "of at most 5": {Most: 5, Prompt: 6}, "the SLO is 0 s": {Most: 1, Prompt: 1},
	} {
		if err := r.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A plan for a model of DeepSeek-V2-Lite's shape is to take 10 ms at most.
func BenchmarkDecide(b *testing.B) {
	s := system(26, 64)
	s.TopK, s.Replicas, s.Functions.Threads = 6, 4, 2
	s.Main = append(s.Main, 20000*mb, 40000*mb)
	activation := make([]float32, 26*64)
	for i := range activation {
		activation[i] = float32(i%64+1) / (64 * 65 / 2)
	}
	r := Request{Most: 500, Prompt: 120, Output: 199, SLO: serverless.SLO{TTFT: 100, TPOT: 1}}
	for b.Loop() {
		if _, err := Decide(s, r, activation, Settings{Step: 1. / 64}); err != nil {
			b.Fatal(err)
		}
	}
}
