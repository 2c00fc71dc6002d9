package quantile

import "testing"

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
