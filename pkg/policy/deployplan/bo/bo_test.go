package bo

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/splitmix"
	"github.com/switchyard/switchyard/pkg/policy/cost"
	"github.com/switchyard/switchyard/pkg/policy/cost/scatter"
	"github.com/switchyard/switchyard/pkg/policy/deployplan/ods"
	"github.com/switchyard/switchyard/pkg/policy/predict/bayes"
)

const (
	vocab = 40
	rows  = 200
)

// computed are rows whose experts follow their tokens and keys, by a seed.
func computed(seed uint64, n int) *bayes.Rows {
	r := &bayes.Rows{Keys: make([][]uint32, 2), Experts: make([][]uint16, 2)}
	state := splitmix.Mix(seed)
	for i := range n {
		token, k := uint32(splitmix.Next(&state)%vocab), uint32(splitmix.Next(&state)%vocab)
		r.Tokens, r.Positions = append(r.Tokens, token), append(r.Positions, uint32(i%8))
		for l := range r.Keys {
			r.Keys[l] = append(r.Keys[l], k)
			r.Experts[l] = append(r.Experts[l], uint16((token+uint32(l)+k/20)%3))
		}
	}
	return r
}

// problem has a table that was made of other rows than those that come.
func problem(t testing.TB) *Problem {
	t.Helper()
	b := bayes.NewBuilder(bayes.Header{Model: "m", Layers: []int{0, 1}, Experts: 3, TopK: 1, Vocab: vocab})
	for i := range uint64(bayes.LeastSamples) {
		r := computed(i, 3)
		if err := b.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	p := &Problem{Table: table, Method: bayes.Methods()[0], System: &scatter.System{
		Model: scatter.Model{Layers: 2, Experts: 3, TopK: 1, Expert: 1e6, In: 1e3, Out: 1e3},
		Functions: cost.Platform{
			Sizes: []float64{1.05e6, 1.1e6, 1.3e6}, PerCPU: 1e6, CPU: cost.Roofline{Bandwidth: 1e12, Rate: 1e7, ElementBytes: 4}, Parameters: cost.Link{Latency: 0.1, Bandwidth: 1e6},
			Payload: 5e4, Direct: 1e6, Replicas: 2, Prices: cost.Prices{Memory: 1},
		},
	}}
	for i := range uint64(2) {
		r := computed(1000+i, rows)
		came, err := table.Real(r)
		if err != nil {
			t.Fatal(err)
		}
		p.Batches = append(p.Batches, Batch{&bayes.Rows{Tokens: r.Tokens, Positions: r.Positions}, came})
	}
	p.Plan = func(loads [][]float64) (*scatter.Plan, error) {
		r, err := ods.ODS(p.System, loads, 1e3, ods.Settings{Betas: 4, States: 100})
		if err != nil {
			return nil, err
		}
		return &r.Plan, nil
	}
	return p
}

func settings(a Acquisition) Settings {
	s := Default()
	s.Acquisition, s.Q, s.Fresh, s.Alpha = a, 20, 2, 1
	return s
}

func run(t *testing.T, s *Search, rounds int) {
	t.Helper()
	for range rounds {
		if err := s.Step(); err != nil {
			t.Fatal(err)
		}
	}
}

// Every acquisition ends with a table that is no dearer than the one it began with; the same seed
// has the same rounds, and a search that was written and read goes on as if it had not been.
func TestSearch(t *testing.T) {
	const rounds = 6
	for _, a := range Acquisitions {
		t.Run(string(a), func(t *testing.T) {
			p := problem(t)
			whole, err := New(p, settings(a))
			if err != nil {
				t.Fatal(err)
			}
			if whole.Trials[0].Cost <= 0 || len(set(whole.Trials[0].Pairs)) != 0 || whole.Trials[0].Case == Fits {
				t.Fatalf("the first round: %+v", whole.Trials[0])
			}
			run(t, whole, rounds)
			if whole.Best().Cost > whole.Trials[0].Cost {
				t.Errorf("the best costs %v, and the table itself %v", whole.Best().Cost, whole.Trials[0].Cost)
			}
			half, err := New(p, settings(a))
			if err != nil {
				t.Fatal(err)
			}
			run(t, half, rounds/2)
			again, err := Resume(p, half.State)
			if err != nil {
				t.Fatal(err)
			}
			run(t, again, rounds-rounds/2)
			if !reflect.DeepEqual(again.State, whole.State) {
				t.Error("a search that goes on has other rounds")
			}
			tuned, err := whole.Tuned()
			if err != nil {
				t.Fatal(err)
			}
			p.Table = tuned
			if after, err := p.try(nil, 1); err != nil || math.Abs(after.Cost-whole.Best().Cost) > 1e-12 {
				t.Errorf("the tuned table costs %+v, %v; the best round %v", after, err, whole.Best().Cost)
			}
		})
	}
}

// ε decays by 1 + ρτ, and that of L by less the worse the case is.
func TestDecay(t *testing.T) {
	for _, tc := range []struct {
		c    Case
		a    Acquisition
		want [2]float64
	}{
		{Fits, Multi, [2]float64{1 / 1.4, 1 / 1.4}},
		{TooLittle, Multi, [2]float64{1.3 / 1.4, 1 / 1.4}},
		{TooLarge, Multi, [2]float64{1.2 / 1.4, 1 / 1.4}},
		{Mispredicted, Multi, [2]float64{1.1 / 1.4, 1 / 1.4}},
		{TooLittle, Single, [2]float64{1 / 1.4, 1 / 1.4}},
	} {
		s := &Search{State: State{Settings: settings(tc.a), Epsilon: [2]float64{1, 1}, Trials: make([]Trial, 3)}}
		s.decay(tc.c)
		if math.Abs(s.Epsilon[0]-tc.want[0])+math.Abs(s.Epsilon[1]-tc.want[1]) > 1e-12 {
			t.Errorf("case %d, %s: %v, want %v", tc.c, tc.a, s.Epsilon, tc.want)
		}
	}
	s := settings(Multi)
	if got := s.Rounds(0.09); math.Abs(got-1.2/0.05*0.9) > 1e-9 {
		t.Errorf("theorem 2: %v rounds", got)
	}
}

func TestCases(t *testing.T) {
	p := problem(t)
	plan := &scatter.Plan{Layers: []scatter.Layer{{Mode: scatter.Direct, Experts: []scatter.Function{{Memory: 1.05e6, Replicas: 1}, {Memory: 1.3e6, Replicas: 1}, {Memory: 1.3e6, Replicas: 2}}}}}
	for _, tc := range []struct {
		foretold, came []float64
		want           Case
	}{
		{[]float64{10, 10, 10}, []float64{10, 11, 12}, Fits},
		{[]float64{10, 10, 10}, []float64{10, 12, 10}, Mispredicted},
		{[]float64{10, 10, 10}, []float64{10, 60, 10}, TooLarge},
		{[]float64{10, 10, 10}, []float64{30, 60, 10}, TooLittle},
	} {
		if got := p.fit(plan, [][]float64{tc.foretold}, [][]float64{tc.came}, 1); got != tc.want {
			t.Errorf("%v of %v: %d, want %d", tc.came, tc.foretold, got, tc.want)
		}
	}
}

func TestDone(t *testing.T) {
	s := State{Settings: Settings{Lambda: 2, Zeta: 0.1}}
	for i, want := range []bool{false, false, false, true, false} {
		s.Trials = append(s.Trials, Trial{Cost: []float64{10, 9.9, 8, 8, 1}[i]})
		if i == 3 {
			s.Trials = append(s.Trials, Trial{Cost: 8})
		}
		if s.Done() != want {
			t.Errorf("after %d rounds: %v", len(s.Trials), !want)
		}
	}
}

// A surrogate says of known points about what they cost, and of far ones the mean.
func TestSurrogate(t *testing.T) {
	x := []float64{0, 1, 2, 3, 4, 5}
	distances, costs := make([][]float64, len(x)), make([]float64, len(x))
	for i := range x {
		costs[i] = 10 + math.Sin(x[i])
		for j := range x {
			distances[i] = append(distances[i], math.Abs(x[i]-x[j]))
		}
	}
	s := fit(distances, costs)
	for i := range x {
		if got := s.at(distances[i]); math.Abs(got-costs[i]) > 0.05 {
			t.Errorf("at %v: %v, want %v", x[i], got, costs[i])
		}
	}
	half := make([]float64, len(x))
	far := make([]float64, len(x))
	for j := range x {
		half[j], far[j] = math.Abs(2.5-x[j]), 1e6
	}
	if got := s.at(half); math.Abs(got-10-math.Sin(2.5)) > 0.1 || math.Abs(s.at(far)-s.mean) > 1e-9 {
		t.Errorf("between %v, far %v", got, s.at(far))
	}
	if got := fit([][]float64{{0}}, []float64{7}).at([]float64{3}); got != 7 {
		t.Errorf("of one point %v", got)
	}
}

// Held-out errors of both kernels, of rounds that were drawn.
func TestErrors(t *testing.T) {
	p := problem(t)
	s, err := New(p, settings(Random))
	if err != nil {
		t.Fatal(err)
	}
	run(t, s, 8)
	byRows, byPairs := Errors(p.Table, s.Trials)
	if !(byRows >= 0 && byRows < 1 && byPairs >= 0 && byPairs < 1) || byRows == byPairs {
		t.Errorf("by rows %v, by pairs %v", byRows, byPairs)
	}
	if a, b := Errors(p.Table, s.Trials[:1]); a != 0 || b != 0 {
		t.Errorf("of one round %v, %v", a, b)
	}
}

func TestRefused(t *testing.T) {
	for want, spoil := range map[string]func(*Settings){
		"unknown; there are":     func(s *Settings) { s.Acquisition = "luck" },
		"0 pairs are changed":    func(s *Settings) { s.Q = 0 },
		"mu is 2":                func(s *Settings) { s.Mu = 2 },
		"epsilon NaN":            func(s *Settings) { s.Epsilon = math.NaN() },
		"each must be below":     func(s *Settings) { s.Slow[0] = 1 },
		"alpha is -1":            func(s *Settings) { s.Alpha = -1 },
		"pairs are to be change": func(s *Settings) { s.Q = MostPairs },
	} {
		s := settings(Multi)
		spoil(&s)
		p := problem(t)
		if strings.HasPrefix(want, "pairs are to be") {
			p.Table = narrow(t)
			p.System.Experts, p.System.Layers = 1, 1
			for i := range p.Batches {
				p.Batches[i].Real = [][]float64{{rows}}
			}
		}
		if _, err := New(p, s); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := problem(t)
	if _, err := Resume(p, State{Settings: settings(Multi)}); err == nil || !strings.Contains(err.Error(), "begin it anew") {
		t.Errorf("%v", err)
	}
	if _, err := Resume(p, State{Settings: settings(Multi), Trials: make([]Trial, 1)}); err == nil || !strings.Contains(err.Error(), "another model or other settings") {
		t.Errorf("%v", err)
	}
	p.System.Experts = 4
	if _, err := New(p, settings(Multi)); err == nil || !strings.Contains(err.Error(), "the table is of 2 layers with 3 experts") {
		t.Errorf("%v", err)
	}
	p.Batches = nil
	if _, err := New(p, settings(Multi)); err == nil || !strings.Contains(err.Error(), "no batches to learn on") {
		t.Errorf("%v", err)
	}
}

// narrow has few keys.
func narrow(t *testing.T) *bayes.Table {
	b := bayes.NewBuilder(bayes.Header{Model: "m", Layers: []int{0}, Experts: 1, TopK: 1, Vocab: 2})
	for range bayes.LeastSamples {
		if err := b.Add(&bayes.Rows{Tokens: []uint32{1}, Positions: []uint32{0}, Keys: [][]uint32{{1}}, Experts: [][]uint16{{0}}}); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Table()
	if err != nil {
		t.Fatal(err)
	}
	return table
}
