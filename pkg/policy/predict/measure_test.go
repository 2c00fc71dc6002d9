package predict

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestHits(t *testing.T) {
	scores := []float32{1, 2, 3, 9, 0, 0}
	if got := Hits(scores, []int32{2, 0, 0, 2}, 3, 2); got != 2 {
		t.Errorf("%d hits, want 2: expert 2 of row 0, expert 0 of row 1 (ties to the lower id)", got)
	}
}

func TestLoadAccuracy(t *testing.T) {
	for _, tt := range []struct {
		name              string
		predicted, actual []float64
		want              float64
	}{
		{"same", []float64{3, 1}, []float64{3, 1}, 1},
		{"half", []float64{4, 0}, []float64{2, 2}, 0.5},
		{"none", []float64{4, 0}, []float64{0, 4}, 0},
		{"no rows", []float64{0, 0}, []float64{0, 0}, 1},
	} {
		if got := LoadAccuracy(tt.predicted, tt.actual); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPearson(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 20).Draw(t, "n")
		x, y := make([]float64, n), make([]float64, n)
		for i := range x {
			x[i] = float64(rapid.IntRange(-9, 9).Draw(t, "x"))
			y[i] = 3 - 2*x[i]
		}
		if got := Pearson(x, x); got != 0 && math.Abs(got-1) > 1e-6 {
			t.Fatalf("with itself: %v", got)
		}
		if got := Pearson(x, y); got != 0 && math.Abs(got+1) > 1e-6 {
			t.Fatalf("with its opposite: %v", got)
		}
	})
}

// Wrong choices of different rows make up for one another in a batch's loads.
func TestLoadsAreForgiving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := gatesOf(t)
		rows := rapid.IntRange(1, 20).Draw(t, "rows")
		predicted, actual := make([]float64, g.Experts), make([]float64, g.Experts)
		scores := floats(t, "scores", rows*g.Experts)
		b := newBase("", g, 1)
		var chosen []int32
		for range rows {
			chosen = append(chosen, rapid.SliceOfNDistinct(rapid.Int32Range(0, int32(g.Experts-1)), g.TopK, g.TopK, rapid.ID).Draw(t, "ids")...)
		}
		for _, e := range chosen {
			actual[e]++
		}
		b.count(fixed{scores: scores}, 0, nil, rows, predicted)
		accuracy := float64(Hits(scores, chosen, g.Experts, g.TopK)) / float64(len(chosen))
		if load := LoadAccuracy(predicted, actual); load < accuracy-1e-9 || load > 1 {
			t.Fatalf("load accuracy %v, accuracy %v", load, accuracy)
		}
	})
}

// fixed has scores already.
type fixed struct {
	Ranker
	scores []float32
}

func (f fixed) Scores(_ int, _ []float32, _ int, scores []float32) bool {
	copy(scores, f.scores)
	return true
}
