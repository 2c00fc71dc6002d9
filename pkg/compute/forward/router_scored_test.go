package forward

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/kernels/cpu"
	"github.com/switchyard/switchyard/kernels/ref"
)

// A row's experts are those that the papers' formulas choose, in float64.
func TestScored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScored(t)
		size := rapid.IntRange(2, 6).Draw(t, "size")
		experts := max(1, s.groups.count) * size
		k := rapid.IntRange(1, min(max(1, s.groups.top), max(1, s.groups.count))*size).Draw(t, "k")
		logits := noise(rapid.Uint64().Draw(t, "seed"), experts)
		if rapid.Bool().Draw(t, "corrected") {
			s.correction = noise(5, experts)
		}
		wantIDs, want := scoredByHand(s, logits, k)
		out := &Routes{}
		out.resize(1, k, experts)
		s.choose(out, slices.Clone(logits), experts, 0, 1)
		if !slices.Equal(out.Expert, wantIDs) {
			t.Fatalf("experts %v, want %v", out.Expert, wantIDs)
		}
		for i, w := range out.Weight {
			if math.Abs(float64(w)-want[i]) > 1e-5 {
				t.Fatalf("weights %v, want %v", out.Weight, want)
			}
		}
	})
}

func drawScored(t *rapid.T) *scoredTopK {
	s := &scoredTopK{score: cpu.Softmax, normalise: rapid.Bool().Draw(t, "normalise"), scale: 2.5}
	if rapid.Bool().Draw(t, "sigmoid") {
		s.score = sigmoids
	}
	s.groups.count = rapid.IntRange(0, 5).Draw(t, "groups")
	s.groups.top = rapid.IntRange(min(1, s.groups.count), s.groups.count).Draw(t, "top")
	s.groups.pairs = rapid.Bool().Draw(t, "pairs")
	return s
}

// scoredByHand sorts where the router searches.
func scoredByHand(s *scoredTopK, logits []float32, k int) (ids []int32, weights []float64) {
	scores := slices.Clone(logits)
	s.score(scores)
	choice := slices.Clone(scores)
	for i := range s.correction {
		choice[i] += s.correction[i]
	}
	kept := bestGroups(s.groups, choice)
	for i := range choice {
		if kept == nil || slices.Contains(kept, i/(len(choice)/s.groups.count)) {
			ids = append(ids, int32(i))
		}
	}
	slices.SortStableFunc(ids, func(a, b int32) int { return cmp.Compare(choice[b], choice[a]) })
	ids = ids[:k]
	sum := 0.0
	for _, id := range ids {
		weights = append(weights, float64(scores[id]))
		sum += float64(scores[id])
	}
	for i := range weights {
		if s.normalise {
			weights[i] /= sum
		}
		weights[i] *= float64(s.scale)
	}
	return ids, weights
}

// bestGroups are the groups that count; nil: all do.
func bestGroups(g expertGroups, choice []float32) []int {
	if g.count <= 1 {
		return nil
	}
	size := len(choice) / g.count
	var score []float32
	var order []int
	for i := range g.count {
		group := slices.Sorted(slices.Values(choice[i*size : (i+1)*size]))
		sum := group[size-1]
		if g.pairs {
			sum += group[size-2]
		}
		score, order = append(score, sum), append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	return order[:g.top]
}

// Scores that all vanish make weights of almost nothing, and no NaN.
func TestScoresVanish(t *testing.T) {
	s := &scoredTopK{score: sigmoids, normalise: true, scale: 2.5}
	out := &Routes{}
	out.resize(1, 2, 3)
	s.choose(out, []float32{-200, -200, -200}, 3, 0, 1)
	if !slices.Equal(out.Expert, []int32{0, 1}) || !(out.Weight[0] < 1e-9 && out.Weight[1] < 1e-9) {
		t.Errorf("%v %v", out.Expert, out.Weight)
	}
}

func TestSigmoids(t *testing.T) {
	x := noise(9, 20)
	got := slices.Clone(x)
	sigmoids(got)
	for i, v := range x {
		if math.Abs(float64(got[i])-ref.Sigmoid(float64(v))) > 1e-6 {
			t.Fatalf("sigmoid of %v is %v", v, got[i])
		}
	}
}
