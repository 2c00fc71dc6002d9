package rented

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/serverless"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/remoe"
)

func question(t *testing.T, name string, c Conditions, slo serverless.SLO) Question {
	t.Helper()
	s, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	system, err := s.System(c)
	if err != nil {
		t.Fatal(err)
	}
	activation := make([]float32, s.Layers*s.Experts)
	for i := range activation {
		activation[i] = 2 * float32(i%s.Experts+1) / float32(s.Experts*(s.Experts+1))
	}
	return Question{System: system, Request: remoe.Request{Most: 200, Prompt: 100, Output: 99, SLO: slo, Decided: Decided}, Activation: activation}
}

// What is refused says the nearest times that are kept, and asking for these is not refused. The same
// question has the same plan.
func TestSolve(t *testing.T) {
	q := question(t, "gpt2_moe", conditions(t), serverless.SLO{TTFT: 1e-3, TPOT: 1e-3})
	s, err := Solve(q)
	if err != nil || s.Feasible || s.Planned != nil || s.Constraint == "" || s.NearestTTFT <= 1e-3 || s.NearestTPOT <= 1e-3 {
		t.Fatalf("%+v, %v", s, err)
	}
	nearest := s.NearestTPOT
	q.Request.SLO = serverless.SLO{TTFT: s.NearestTTFT, TPOT: nearest}
	for range 2 {
		again, err := Solve(q)
		if err != nil || !again.Feasible || again.TTFT > again.WorstTTFT || again.TPOT > nearest || len(again.Limits) > 0 || len(again.Baselines) != 4 || len(again.Layers) != 12 {
			t.Fatalf("%+v, %v", again, err)
		}
		if s.Planned != nil && !reflect.DeepEqual(s, again) {
			t.Error("the same question has another plan")
		}
		s = again
	}
	q.Request.SLO = serverless.SLO{TTFT: 60, TPOT: 1}
	if s, err = Solve(q); err != nil || s.Ratio == 0 || s.Sizes.Chosen > 1.01*s.Sizes.Best || s.Sizes.Best <= 0 {
		t.Errorf("%+v, %v", s.Planned, err)
	}
	for _, one := range s.Layers {
		if len(one.Remote) == 0 || one.Memory == 0 || one.Prefill <= 0 || one.Decode <= 0 {
			t.Errorf("%+v", one)
		}
	}
}

// The best of all plans costs no more.
func TestSolveExact(t *testing.T) {
	q := question(t, "small", conditions(t), serverless.SLO{TTFT: 60, TPOT: 1})
	q.Exact = true
	s, err := Solve(q)
	if err != nil || s.Exact == nil || s.Exact.Change < -1e-9 || !s.Exact.Keeps || !strings.Contains(s.Exact.Name, "all plans") {
		t.Errorf("%+v, %v", s, err)
	}
}

// A curve of times that does not fall is refused, and the table of times is used.
func TestFlatCurve(t *testing.T) {
	c := conditions(t)
	curve, err := cost.NewCurve(1e6, []cost.Point{{Rows: 1, Seconds: 1e-4}, {Rows: 9, Seconds: 2e-4}})
	if err != nil {
		t.Fatal(err)
	}
	if c.Speeds, err = cost.NewSpeeds([]float64{200 * mb, 2000 * mb}, []*cost.Curve{curve, curve}); err != nil {
		t.Fatal(err)
	}
	s, err := Solve(question(t, "gpt2_moe", c, serverless.SLO{TTFT: 60, TPOT: 1}))
	if err != nil || !s.Sizes.Table || !strings.Contains(s.Sizes.Why, "do not fall with memory") || s.Sizes.Chosen > s.Sizes.Best*(1+1e-9) {
		t.Errorf("%+v, %v", s, err)
	}
}

// What cannot be is refused with the cure, by each thing's name.
func TestSolveRefused(t *testing.T) {
	ask := func(change func(c *Conditions, q *remoe.Request)) error {
		shape, err := Open("gpt2_moe")
		if err != nil {
			t.Fatal(err)
		}
		c, r := conditions(t), remoe.Request{Most: 9, Prompt: 9, Output: 9, SLO: serverless.SLO{TTFT: 60, TPOT: 1}}
		change(&c, &r)
		system, err := shape.System(c)
		if err != nil {
			return err
		}
		_, err = Solve(Question{System: system, Request: r, Activation: slices.Repeat([]float32{1. / 8}, 96)})
		return err
	}
	none, little := 0, 100.
	for want, change := range map[string]func(c *Conditions, q *remoe.Request){
		"sizes are above 0 and ascend":    func(c *Conditions, _ *remoe.Request) { c.Functions = []float64{300 * mb, 200 * mb} },
		"add a larger size":               func(c *Conditions, _ *remoe.Request) { c.Functions = []float64{mb} },
		"size 1 of the main model's host": func(c *Conditions, _ *remoe.Request) { c.Main = []float64{2 * mb, mb} },
		"set it to 1 to 64":               func(c *Conditions, _ *remoe.Request) { c.Replicas = &none },
		"raise the payload to one row":    func(c *Conditions, _ *remoe.Request) { c.Payload = &little },
		"memory costs nothing":            func(c *Conditions, _ *remoe.Request) { c.Platform.Memory = 0 },
		"it must be above 0":              func(c *Conditions, _ *remoe.Request) { c.Ratio = 0 },
		"it must have one or more":        func(_ *Conditions, q *remoe.Request) { q.Prompt = 0 },
		"the first two must be above 0":   func(_ *Conditions, q *remoe.Request) { q.TPOT = math.NaN() },
	} {
		if err := ask(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := ask(func(*Conditions, *remoe.Request) {}); err != nil {
		t.Error(err)
	}
}

// Sizes that are mended cost at most 1 % more than the best ones, at each shape's full size.
func TestSizes(t *testing.T) {
	if testing.Short() || testkit.Race {
		t.Skip("one goroutine does all of it")
	}
	for _, name := range []string{"gpt2_moe", "demo", "deepseek-v2-lite"} {
		q := question(t, name, conditions(t), serverless.SLO{TTFT: 1000, TPOT: 1000})
		s, err := q.System, error(nil)
		d := s.Expected(q.Activation, q.Request.Prompt, q.Request.Output)
		mix, fits := remoe.Mix(s, &d)
		if !fits {
			t.Fatal(name)
		}
		for _, times := range []float64{1.1, 1.5, 2, 3} {
			q.Request.SLO = serverless.SLO{TTFT: times * mix.TTFT(), TPOT: times * mix.TPOT()}
			var got *Solution
			if got, err = Solve(q); err != nil {
				t.Fatal(err)
			}
			if got.Feasible && got.Sizes.Best > 0 && got.Sizes.Chosen > 1.01*got.Sizes.Best {
				t.Errorf("%s at %v times MIX: %v, and the best is %v (rounded %v)", name, times, got.Sizes.Chosen, got.Sizes.Best, got.Sizes.Rounded)
			}
		}
	}
}

// The parts of the gap make it up; without mispredictions nothing is lost to them.
func TestGap(t *testing.T) {
	_, r, texts := run(t, "small", 60, 4, 3)
	for i := range texts.Served {
		q := &texts.Served[i]
		g, err := r.Gap(q)
		if err != nil {
			t.Fatal(err)
		}
		if sum := g.Prediction + g.WorstCase + g.Relaxation + g.Replicas + g.Selection; math.Abs(sum-g.Whole) > 1e-9 || g.Replicas < -1e-9 || g.Selection < -1e-9 {
			t.Errorf("%+v", g)
		}
	}
	_, r, texts = run(t, "gpt2_moe", 20, 1, 3)
	if _, err := r.Gap(&texts.Served[0]); !errors.Is(err, ErrNoGap) || !errors.Is(err, remoe.ErrTooMany) {
		t.Errorf("%v", err)
	}
}

// What figures show: bars end with the request, times fall with memory and rise with what is remote.
func TestFigures(t *testing.T) {
	_, r, texts := run(t, "small", 60, 1, 3)
	for _, p := range Policies(1) {
		bars, err := r.Billed(p, &texts.Served[0], 3)
		if err != nil || len(bars) == 0 {
			t.Fatalf("%s: %v, %v", p.Name, bars, err)
		}
		for _, b := range bars {
			if b.To <= b.From || b.GB <= 0 || b.To > 1.2*bars[0].To {
				t.Errorf("%s: %+v", p.Name, b)
			}
		}
	}
	shares, seconds := ByRemote(r.System, 5)
	if len(shares) != r.Experts+1 || shares[r.Experts] != 1 || seconds[r.Experts] <= seconds[0] {
		t.Errorf("%v: %v", shares, seconds)
	}
	memory, seconds, _, _ := ByMemory(r.System)
	if len(memory) != len(r.Sizes()) || seconds[0] < seconds[len(seconds)-1] {
		t.Errorf("%v: %v", memory, seconds)
	}
	even := slices.Repeat([]float32{1 / float32(r.Experts)}, r.Layers*r.Experts)
	if p, d, err := Times(r.System, even, 100, 50); err != nil || p <= 0 || d <= 0 {
		t.Errorf("%v, %v, %v", p, d, err)
	}
}
