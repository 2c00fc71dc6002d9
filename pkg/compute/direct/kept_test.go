package direct

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// keptPrompt is longer than two pages, and than the rows that attend together.
func keptPrompt() (ids []uint32) {
	for i := range 71 {
		ids = append(ids, uint32(100+37*i%5000))
	}
	return ids
}

func keptLogits(t *testing.T, r *Runner, ids []uint32) []float32 {
	t.Helper()
	s, err := r.Add(ids, 0, greedy)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	logits, err := r.Logits(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(logits)
}

// Keys and values in fewer bits move logits by little, and these have one set of bits whatever kernels
// compute, and however many rows do so together.
func TestKeptLogits(t *testing.T) {
	t.Run("heads", func(t *testing.T) {
		checkKeptLogits(t, demo, map[model.KVCache]float64{model.KVF32: 0, model.KVBF16: 0.006, model.KVInt8: 0.009})
	})
	t.Run("latents", func(t *testing.T) {
		checkKeptLogits(t, goldens.Dir("deepseek_v2"), map[model.KVCache]float64{model.KVF32: 0, model.KVBF16: 0.006, model.KVInt8: 0.016})
	})
}

func checkKeptLogits(t *testing.T, dir string, bounds map[model.KVCache]float64) {
	exact, m := loadKept(t, dir, tensor.F32, model.AsStored, model.KVF32, 0)
	prompt := keptPrompt()
	for i := range prompt {
		prompt[i] %= uint32(m.Spec.Vocab)
	}
	want := keptLogits(t, exact, prompt)
	for kept, most := range bounds {
		t.Run(string(kept), func(t *testing.T) {
			whole, _ := loadKept(t, dir, tensor.F32, model.AsStored, kept, 0)
			got := keptLogits(t, whole, prompt)
			if d := usually(got, want, m.Spec.Vocab); !(d <= most) || most > 0 && d == 0 {
				t.Errorf("logits differ by %.4f of their size, want at most %v", d, most)
			}
			for _, name := range cpu.Available() {
				restore, err := cpu.Use(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, rows := range []int{1, 7} {
					if name == "generic" && (rows > 1 || kept != model.KVInt8) {
						continue // it is slow
					}
					few, _ := loadKept(t, dir, tensor.F32, model.AsStored, kept, rows)
					if !slices.Equal(keptLogits(t, few, prompt), got) {
						t.Errorf("%s, at most %d rows at once: other logits", name, rows)
					}
				}
				restore()
			}
		})
	}
}

// usually is the median over positions of the difference's size over that of what is wanted: a few
// positions go to other experts, and differ by more.
func usually(got, want []float32, vocab int) float64 {
	var each []float64
	for ; len(got) > 0; got, want = got[vocab:], want[vocab:] {
		lost, all := 0.0, 0.0
		for i, v := range want[:vocab] {
			lost, all = lost+math.Pow(float64(got[i]-v), 2), all+math.Pow(float64(v), 2)
		}
		each = append(each, math.Sqrt(lost/all))
	}
	slices.Sort(each)
	return each[len(each)/2]
}

// A sequence's tokens do not depend on its company, and greedy ones of the demo model are the golden ones.
func TestKeptTokens(t *testing.T) {
	for _, kept := range []model.KVCache{model.KVBF16, model.KVInt8} {
		for _, wire := range []tensor.Wire{tensor.F32, tensor.BF16} {
			t.Run(fmt.Sprintf("%s/%s", kept, wire), func(t *testing.T) {
				r, _ := loadKept(t, demo, wire, model.AsStored, kept, 0)
				const tokens = 40
				all := generate(t, r, tokens, []int{0, 1, 2, 3, 4, 5, 6})
				for i := range all {
					if alone := generate(t, r, tokens, []int{i})[0]; !slices.Equal(alone, all[i]) {
						t.Errorf("sequence %d: alone %v, in a batch %v", i, alone, all[i])
					}
				}
				if wire == tensor.F32 {
					checkGreedy(t, r, demo)
				}
			})
		}
	}
}

// Steps with codes allocate no more than others.
func TestKeptAllocations(t *testing.T) {
	count := func(kept model.KVCache) float64 {
		r, _ := loadKept(t, demo, tensor.BF16, model.AsStored, kept, 0)
		r.choose.Pool.Close() // pieces are cut by how many workers are awake
		s, err := r.Add(keptPrompt(), 300, sampling.Params{TopP: 1, Logprobs: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		step := func() {
			if err := r.Step(t.Context(), []*Sequence{s}); err != nil {
				t.Fatal(err)
			}
		}
		step()
		return testing.AllocsPerRun(50, step)
	}
	if plain, codes := count(model.KVF32), count(model.KVInt8); codes > plain+7 { // fewer than one a layer: a page now and then, and the race detector has pools lose some
		t.Errorf("%v allocations a step, %v in float32", codes, plain)
	}
}
