package sampling

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// goldenCase is what transformers makes of logits (testdata/make_golden.py).
type goldenCase struct {
	Settings struct {
		Temperature       float32            `json:"temperature"`
		TopP              float32            `json:"top_p"`
		TopK              int                `json:"top_k"`
		MinP              float32            `json:"min_p"`
		RepetitionPenalty float32            `json:"repetition_penalty"`
		LogitBias         map[string]float32 `json:"logit_bias"`
		MinTokens         int                `json:"min_tokens"`
		Ends              []uint32           `json:"ends"`
	} `json:"settings"`
	Logits            []float32
	Prompt, Generated []uint32
	Shaped            []*float32         // null: barred
	Left              map[string]float64 // the probabilities to draw by
}

func (c *goldenCase) params(t *testing.T) Params {
	s := c.Settings
	p := Params{
		Temperature: s.Temperature, TopP: s.TopP, TopK: s.TopK, MinP: s.MinP, RepetitionPenalty: s.RepetitionPenalty,
		MinTokens: s.MinTokens, Ends: s.Ends, Logprobs: -1,
	}
	if p.TopP == 0 {
		p.TopP = 1
	}
	for id, value := range s.LogitBias {
		n, err := strconv.Atoi(id)
		if err != nil {
			t.Fatal(err)
		}
		p.Bias = append(p.Bias, Bias{uint32(n), value})
	}
	return p
}

// The order and the arithmetic of transformers' logits processors.
func TestGolden(t *testing.T) {
	var golden struct{ Cases []goldenCase }
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(golden.Cases), err)
	}
	for i := range golden.Cases {
		t.Run(strconv.Itoa(i), func(t *testing.T) { golden.Cases[i].check(t) })
	}
}

func (c *goldenCase) check(t *testing.T) {
	p, history := c.params(t), slices.Concat(c.Prompt, c.Generated)
	shaped := slices.Clone(c.Logits)
	new(Sampler).shape(shaped, &p, history, len(c.Generated))
	for id, got := range shaped {
		want := barred
		if c.Shaped[id] != nil {
			want = *c.Shaped[id]
		}
		if got != want && !(math.Abs(float64(got-want)) < 1e-5) {
			t.Errorf("token %d: logit %v, want %v", id, got, want)
		}
	}
	drawn := map[int]float64{}
	const draws = 4000
	var s Sampler
	for seed := range uint32(draws) {
		p.Seed = seed
		drawn[int(s.Next(slices.Clone(c.Logits), p, history, len(c.Generated)).ID)] += 1.0 / draws
	}
	for id := range c.Logits {
		want, left := c.Left[strconv.Itoa(id)]
		if drawn[id] > 0 && !left {
			t.Errorf("token %d was drawn, and is not left", id)
		}
		if math.Abs(drawn[id]-want) > 0.03 {
			t.Errorf("token %d has share %.3f, want %.3f", id, drawn[id], want)
		}
	}
}

// OpenAI's formula: logit - count*frequency - (count > 0)*presence, of the answer's tokens alone.
func TestUsePenalties(t *testing.T) {
	p := plain
	p.PresencePenalty, p.FrequencyPenalty = 0.5, 0.25
	logits := []float32{1, 2, 3, 4, 5}
	history := []uint32{4, 4, 0, 1, 3, 1, 1, 900}
	c := new(Sampler).Next(logits, p, history, 5) // the last five were generated
	if want := []float32{1, 0.75, 3, 3.25, 5}; !slices.Equal(logits, want) {
		t.Errorf("%v, want %v", logits, want)
	}
	if c.ID != 4 {
		t.Errorf("chose %d", c.ID)
	}
}

// What is not asked for changes no bit, and what was counted once does not stay counted.
func TestNeutral(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := drawLogits(t)
		history := rapid.SliceOfN(rapid.Uint32Range(0, 70), 1, 20).Draw(t, "history")
		p := Params{Temperature: 1, TopP: 0.9, RepetitionPenalty: 1.2, Seed: rapid.Uint32().Draw(t, "seed"), Logprobs: 3}
		want := new(Sampler).Next(slices.Clone(logits), p, history, 1)
		with := p
		with.PresencePenalty, with.FrequencyPenalty = 1, -0.5
		var used Sampler
		used.Next(slices.Clone(logits), with, history, len(history))
		if got := used.Next(slices.Clone(logits), p, history, 1); got.ID != want.ID || got.Logprob != want.Logprob || !slices.Equal(got.Top, want.Top) {
			t.Fatalf("%v, want %v", got, want)
		}
		if i := slices.IndexFunc(used.counts, func(n int32) bool { return n != 0 }); i >= 0 {
			t.Fatalf("token %d is still counted", i)
		}
	})
}

// Ends are neither chosen nor reported before their time.
func TestMinTokens(t *testing.T) {
	p := plain
	p.MinTokens, p.Ends, p.Logprobs = 3, []uint32{1, 99}, 3
	for index := range 5 {
		c := next([]float32{1, 9, 2}, p, index)
		want, reported := uint32(2), 2
		if index >= 3 {
			want, reported = 1, 3
		}
		if c.ID != want || len(c.Top) != reported {
			t.Errorf("index %d: %v", index, c)
		}
	}
}

// Whatever is asked for, a token comes of it.
func TestAnyShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := drawLogits(t)
		ids := rapid.SliceOfN(rapid.Uint32Range(0, 70), 0, 20)
		p := Params{
			Temperature: rapid.SampledFrom([]float32{0, 0.3, 1}).Draw(t, "temperature"), TopP: rapid.SampledFrom([]float32{1, 0.5}).Draw(t, "top_p"),
			TopK: rapid.IntRange(0, 3).Draw(t, "top_k"), MinP: rapid.SampledFrom([]float32{0, 0.2, 1}).Draw(t, "min_p"),
			PresencePenalty: 2, FrequencyPenalty: -2, MinTokens: 5, Ends: ids.Draw(t, "ends"), Logprobs: 5,
			Bias: []Bias{{0, rapid.Float32Range(-100, 100).Draw(t, "bias")}, {math.MaxUint32, 1}},
		}
		if c := next(logits, p, 2); int(c.ID) >= len(logits) {
			t.Fatalf("chose %d of %d", c.ID, len(logits))
		}
	})
}

// The cost of penalties with a long answer, beside the choice itself.
func BenchmarkShape(b *testing.B) {
	const vocab = 151936
	logits, history := logitsOf(0, vocab), make([]uint32, 8192)
	for i := range history {
		history[i] = uint32(i * 17 % vocab)
	}
	for name, p := range map[string]Params{
		"none":       {TopP: 1, Logprobs: -1},
		"repetition": {TopP: 1, RepetitionPenalty: 1.1, Logprobs: -1},
		"use":        {TopP: 1, PresencePenalty: 0.1, FrequencyPenalty: 0.1, Logprobs: -1},
		"min_p":      {Temperature: 1, TopP: 1, MinP: 0.1, Logprobs: -1},
	} {
		b.Run(name, func(b *testing.B) {
			var s Sampler
			work := slices.Clone(logits)
			for b.Loop() {
				copy(work, logits)
				s.Next(work, p, history, len(history)/2)
			}
		})
	}
}
