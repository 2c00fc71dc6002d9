package expertmap

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSelect(t *testing.T) {
	row := []float32{0.1, 0.5, 0.1, 0.3}
	for _, tt := range []struct {
		name  string
		score float32
		topK  int
		want  []int
	}{
		{"certain", 1, 2, []int{1, 3}},
		{"beyond", 1.5, 1, []int{1}},
		{"none needed", 1, 0, nil},
		{"half", 0.5, 1, []int{1}},
		{"more", 0.25, 1, []int{1, 3}},
		{"ties", 0.15, 1, []int{1, 3, 0}},
		{"all", 0, 1, []int{1, 3, 0, 2}},
		{"negative", -1, 1, []int{1, 3, 0, 2}},
		{"no number", float32(math.NaN()), 1, []int{1, 3, 0, 2}},
		{"k of more", 1, 9, []int{1, 3, 0, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, h := range Select(row, tt.score, tt.topK, nil) {
				got = append(got, h.Expert)
				if h.Probability != row[h.Expert] {
					t.Errorf("expert %d has %v", h.Expert, h.Probability)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if got := Select([]float64{0.6, 0.1, 0.3}, 0.2, 1, []Hint{{7, 1}}); len(got) != 3 || got[0].Expert != 7 {
		t.Errorf("it does not append: %v", got)
	}
}

// No smaller set reaches δ, and no other one of its size has more probability.
func TestSelectMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := seeded(Shape{Experts: rapid.IntRange(1, 12).Draw(t, "experts")}, rapid.Uint64().Draw(t, "seed"))
		row, score := r.row(), rapid.Float32Range(-1, 1).Draw(t, "score")
		topK := rapid.IntRange(0, r.Experts).Draw(t, "k")
		got := Select(row, score, topK, nil)
		sum := 0.0
		for _, h := range got {
			sum += float64(h.Probability)
		}
		delta := float64(Threshold(score))
		if len(got) < topK || sum < delta && len(got) < r.Experts {
			t.Fatalf("%d experts with %v of %v", len(got), sum, delta)
		}
		for set := range 1 << r.Experts {
			size, reached := 0, 0.0
			for e := range row {
				if set>>e&1 == 1 {
					size++
					reached += float64(row[e])
				}
			}
			if size < len(got) && size >= topK && reached >= delta+1e-9 || size == len(got) && reached > sum+1e-9 {
				t.Fatalf("the set %b of %d reaches %v; chosen are %d with %v of %v", set, size, reached, len(got), sum, delta)
			}
		}
	})
}

// Several rows use an expert more probably than one, and as surely as chances can be.
func TestSeveral(t *testing.T) {
	for _, tc := range []struct {
		rows, k int
		p, want float32
	}{{1, 2, 0.3, 0.3}, {1, 2, -1, 0}, {2, 1, 0.5, 0.75}, {2, 2, 0.25, 0.75}, {9, 2, 0.6, 1}, {3, 2, -1, 0}} {
		if got := Several(tc.rows, tc.k, tc.p); got != tc.want {
			t.Errorf("%d rows, k %d, p %v: %v, want %v", tc.rows, tc.k, tc.p, got, tc.want)
		}
	}
	row := []float32{0.4, 0.3, 0.2, 0.1}
	for rows, want := range map[int]int{1: 1, 2: 2, 3: 2, 9: 4} {
		if got := Least(row, rows, 1); got != want {
			t.Errorf("%d rows: %d experts, want %d", rows, got, want)
		}
	}
}
