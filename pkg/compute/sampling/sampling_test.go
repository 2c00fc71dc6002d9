package sampling

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plain is greedy without anything else.
var plain = Params{TopP: 1, RepetitionPenalty: 1, Logprobs: -1}

// drawLogits draws logits with many ties: ties are where orders differ.
func drawLogits(t *rapid.T) []float32 {
	n := rapid.IntRange(1, 60).Draw(t, "vocab")
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Float32Range(-20, 20),
		rapid.Map(rapid.IntRange(-4, 4), func(i int) float32 { return float32(i) }),
	), n, n).Draw(t, "logits")
}

func next(logits []float32, p Params, index int) Choice {
	var s Sampler
	return s.Next(slices.Clone(logits), p, nil, index)
}

// allowed lists what top-k and top-p leave, best first, computed the long way.
// loose also has the next candidate when the mass is within rounding of top_p.
func allowed(logits []float32, p Params) (strict, loose []int) {
	order := make([]int, len(logits))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	if p.TopK > 0 {
		order = order[:min(p.TopK, len(order))]
	}
	probs, total := make([]float64, len(order)), 0.0
	for i, id := range order {
		probs[i] = math.Exp((float64(logits[id]) - float64(logits[order[0]])) / float64(p.Temperature))
		total += probs[i]
	}
	mass, least := 0.0, 0
	for i := range order {
		mass += probs[i] / total
		if least == 0 && mass >= float64(p.TopP)-1e-4 {
			least = i + 1
		}
		if p.TopP < 1 && mass >= float64(p.TopP)+1e-4 {
			return order[:least], order[:i+1]
		}
	}
	if least == 0 {
		least = len(order)
	}
	return order[:least], order
}

func TestGreedy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := drawLogits(t)
		got := int(next(logits, plain, 0).ID)
		for i, v := range logits {
			if v > logits[got] || v == logits[got] && i < got {
				t.Fatalf("chose %d of %v", got, logits)
			}
		}
	})
}

// The better a token, the sooner it is within the sets; only what they allow
// is ever drawn.
func TestOnlyAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := drawLogits(t)
		p := Params{
			Temperature: rapid.Float32Range(0.05, 5).Draw(t, "temperature"),
			TopP:        rapid.OneOf(rapid.Just(float32(1)), rapid.Float32Range(0.001, 1)).Draw(t, "top_p"),
			TopK:        rapid.IntRange(0, len(logits)+2).Draw(t, "top_k"),
			Seed:        rapid.Uint32().Draw(t, "seed"),
			Logprobs:    -1,
		}
		_, loose := allowed(logits, p)
		for index := range 40 {
			if got := int(next(logits, p, index).ID); !slices.Contains(loose, got) {
				t.Fatalf("drew %d, allowed are %v", got, loose)
			}
		}
	})
}

// Every token that is allowed comes up as often as its probability says.
func TestDistribution(t *testing.T) {
	logits := []float32{1, 3, -1, 2, 2, 0.5, -30}
	for _, p := range []Params{
		{Temperature: 1, TopP: 1}, {Temperature: 0.5, TopP: 1}, {Temperature: 2, TopP: 1, TopK: 4},
		{Temperature: 1, TopP: 0.8}, {Temperature: 1.5, TopP: 0.7, TopK: 5}, {Temperature: 1, TopP: 1, TopK: 7},
	} {
		set, _ := allowed(logits, p)
		want, total := map[int]float64{}, 0.0
		for _, id := range set {
			want[id] = math.Exp(float64(logits[id]) / float64(p.Temperature))
			total += want[id]
		}
		got := map[int]float64{}
		const seeds, indexes = 100, 200
		for seed := range uint32(seeds) {
			for index := range indexes {
				p.Seed = seed
				got[int(next(logits, p, index).ID)]++
			}
		}
		for id := range logits {
			if w, g := want[id]/total, got[id]/(seeds*indexes); math.Abs(w-g) > 0.015 {
				t.Errorf("%+v: token %d has share %.3f, want %.3f", p, id, g, w)
			}
		}
	}
}

// A choice depends on the logits, the parameters and the index alone, so a
// resumed request goes on with the same tokens.
func TestPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{
			Temperature: 1, TopP: rapid.SampledFrom([]float32{1, 0.9}).Draw(t, "top_p"),
			TopK: rapid.IntRange(0, 5).Draw(t, "top_k"), Seed: rapid.Uint32().Draw(t, "seed"), Logprobs: 2,
		}
		logits, other := drawLogits(t), drawLogits(t)
		var used Sampler
		for index := range 10 {
			used.Next(slices.Clone(other), Params{Temperature: 2, TopP: 0.5, TopK: 3}, nil, index)
			a, b := used.Next(slices.Clone(logits), p, nil, index), next(logits, p, index)
			if a.ID != b.ID || a.Logprob != b.Logprob || !slices.Equal(a.Top, b.Top) {
				t.Fatalf("index %d: %v and %v", index, a, b)
			}
		}
	})
}

func TestUniform(t *testing.T) {
	seen, sum := map[float64]bool{}, 0.0
	const seeds, indexes = 50, 200
	for seed := range uint32(seeds) {
		for index := range indexes {
			u := Uniform(seed, index)
			if u < 0 || u >= 1 {
				t.Fatalf("seed %d, index %d: %v", seed, index, u)
			}
			seen[u] = true
			sum += u
		}
	}
	if len(seen) != seeds*indexes {
		t.Errorf("%d different numbers of %d", len(seen), seeds*indexes)
	}
	if mean := sum / (seeds * indexes); math.Abs(mean-0.5) > 0.01 {
		t.Errorf("mean %v", mean)
	}
	// Released: a seed's tokens must not change with a version.
	if got, want := Uniform(7, 3), 0.42056992093657886; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

// transformers' RepetitionPenaltyLogitsProcessor: a token that occurred, once
// or often, in prompt or answer, has its positive logit divided and its
// negative one multiplied.
func TestRepetitionPenalty(t *testing.T) {
	logits := []float32{2, -2, 0, 4, -4, 1}
	var s Sampler
	p := plain
	p.RepetitionPenalty = 2
	c := s.Next(logits, p, []uint32{3, 1, 3, 2, 99}, 0)
	if want := []float32{2, -4, 0, 2, -4, 1}; !slices.Equal(logits, want) {
		t.Errorf("%v, want %v", logits, want)
	}
	if c.ID != 0 {
		t.Errorf("chose %d", c.ID)
	}
	for _, none := range []float32{0, 1} {
		p.RepetitionPenalty = none
		before := slices.Clone(logits)
		if s.Next(logits, p, []uint32{0, 1, 2, 3}, 0); !slices.Equal(logits, before) {
			t.Errorf("a penalty of %v changed %v to %v", none, before, logits)
		}
	}
}

// logSoftmax is the long way.
func logSoftmax(x []float32) []float64 {
	top, sum, out := float64(slices.Max(x)), 0.0, make([]float64, len(x))
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range x {
		out[i] = float64(v) - top - math.Log(sum)
	}
	return out
}

func TestLogprobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := drawLogits(t)
		p := Params{
			Temperature: rapid.SampledFrom([]float32{0, 0.7}).Draw(t, "temperature"), TopP: 1,
			Logprobs: rapid.IntRange(0, len(logits)+2).Draw(t, "n"), Seed: 5,
		}
		c, want := next(logits, p, 0), logSoftmax(logits)
		if d := math.Abs(float64(c.Logprob) - want[c.ID]); d > 1e-4 {
			t.Fatalf("%v for token %d, want %v", c.Logprob, c.ID, want[c.ID])
		}
		if len(c.Top) != min(p.Logprobs, len(logits)) {
			t.Fatalf("%d candidates, want %d", len(c.Top), p.Logprobs)
		}
		_, order := allowed(logits, Params{Temperature: 1, TopP: 1})
		sum := 0.0
		for i, cand := range c.Top {
			// After the subtraction neighbours may be equal; the probability decides.
			if int(cand.ID) != order[i] && math.Abs(want[cand.ID]-want[order[i]]) > 1e-5 {
				t.Fatalf("candidate %d is %d, want %d", i, cand.ID, order[i])
			}
			sum += math.Exp(float64(cand.Logprob))
		}
		if sum > 1+1e-5 {
			t.Fatalf("probabilities sum to %v", sum)
		}
	})
}

func TestNoLogprobs(t *testing.T) {
	if c := next([]float32{1, 2}, plain, 0); c.Top != nil || c.Logprob != 0 {
		t.Errorf("%+v", c)
	}
}

// A temperature too small to divide by is greedy, and what is no number never panics.
func TestExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tc := range []struct {
		name   string
		logits []float32
		p      Params
		want   int // -1: any
	}{
		{"tiny temperature", []float32{-3, 0, -1}, Params{Temperature: 1e-40, TopP: 0.9}, 1},
		{"tiny temperature, negative", []float32{-3, -2, -9}, Params{Temperature: 1e-44, TopP: 1}, 1},
		{"small temperature", []float32{80, 90, -90}, Params{Temperature: 2e-5, TopP: 0.9}, 1},
		{"huge temperature", []float32{1, 2, 3}, Params{Temperature: 100, TopP: 1}, -1},
		{"masked", []float32{-inf, 1, -inf}, Params{Temperature: 1, TopP: 1}, 1},
		{"masked, top-k", []float32{-inf, 1, -inf}, Params{Temperature: 1, TopP: 1, TopK: 2}, 1},
		{"masked, top-p", []float32{-inf, 1, -inf}, Params{Temperature: 1, TopP: 0.5}, 1},
		{"one token", []float32{-5}, Params{Temperature: 1, TopP: 0.01, TopK: 1}, 0},
		{"not a number", []float32{nan, 1, nan}, Params{Temperature: 1, TopP: 0.9}, -1},
		{"not a number, top-k", []float32{nan, nan, 1}, Params{Temperature: 1, TopP: 1, TopK: 2}, -1},
		{"not a number, all", []float32{nan, nan}, Params{Temperature: 1, TopP: 1}, -1},
		{"not a number, greedy", []float32{nan, 3}, Params{TopP: 1, Logprobs: 3}, -1},
		{"infinite", []float32{inf, 1, inf}, Params{Temperature: 1, TopP: 0.9, TopK: 2}, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for index := range 20 {
				choice := next(tc.logits, tc.p, index)
				got := int(choice.ID)
				if unreal := strings.HasPrefix(tc.name, "not a number") || tc.name == "infinite"; choice.Unreal != unreal {
					t.Fatalf("unreal is %v", choice.Unreal)
				}
				if tc.want >= 0 && got != tc.want || got >= len(tc.logits) {
					t.Fatalf("chose %d, want %d", got, tc.want)
				}
			}
		})
	}
}
