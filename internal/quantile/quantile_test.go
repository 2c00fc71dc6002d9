package quantile

import (
	"math"
	"testing"
)

func TestOf(t *testing.T) {
	for _, tt := range []struct {
		of   []float64
		q    float64
		want float64
	}{
		{nil, 0.5, 0},
		{[]float64{3}, 0, 3},
		{[]float64{3}, 1, 3},
		{[]float64{1, 2, 3, 4}, 0.5, 3},
		{[]float64{1, 2, 3, 4}, 0.74, 3},
		{[]float64{1, 2, 3, 4}, 0.99, 4},
		{[]float64{1, 2, 3, 4}, 1, 4},
	} {
		if got := Of(tt.of, tt.q); got != tt.want {
			t.Errorf("%v of %v: %v, want %v", tt.q, tt.of, got, tt.want)
		}
	}
}

// The interval of 2, 4, 4, 4, 6 by hand: a deviation of √2, so 2.776·√2/√5 to each side.
func TestInterval(t *testing.T) {
	mean, half := Interval95([]float64{2, 4, 4, 4, 6})
	if mean != 4 || math.Abs(half-2.776*math.Sqrt(2.0/5)) > 1e-12 {
		t.Errorf("%v ± %v", mean, half)
	}
	if mean, half = Interval95([]float64{7, 7}); mean != 7 || half != 0 {
		t.Errorf("equal values: %v ± %v", mean, half)
	}
	if _, half = Interval95([]float64{7}); !math.IsInf(half, 1) {
		t.Errorf("one value: ± %v", half)
	}
	for freedom, want := range map[int]float64{1: 12.706, 19: 2.093, 20: 2.086, 40: 2.021, 120: 1.980} { // as printed in tables
		if got := quantile975(freedom); math.Abs(got-want) > 6e-4 {
			t.Errorf("%d degrees of freedom: %v, want %v", freedom, got, want)
		}
	}
}
