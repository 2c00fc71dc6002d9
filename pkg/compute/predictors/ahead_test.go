package predictors

import (
	"math"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/model"
)

// What is trained for a distance says what rows ask of that layer; where nothing is, nothing is said.
func TestAhead(t *testing.T) {
	m, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }() // it is only read
	const most = 5
	all := AheadFor(m, "", most)
	x, row := make([]float32, m.Spec.Hidden), make([]float32, m.Spec.Experts)
	x[3] = 1
	for d := 1; d <= most; d++ {
		said := all.Fill(0, d, d, x, row)
		if said != (all[d-1] != nil) {
			t.Errorf("distance %d: something is said: %v", d, said)
		}
		if sum := sumOf(row); said && math.Abs(sum-1) > 1e-5 {
			t.Errorf("distance %d: chances add up to %v", d, sum)
		}
	}
	if all.Fill(0, 0, 0, x, row) || all.Fill(0, most+1, most+1, x, row) || all.Fill(0, 1, 2, x, row) {
		t.Error("something is said of what nothing is trained for")
	}
	if len(AheadFor(m, "missing", most)) != most {
		t.Error("without weights there must be none for each distance")
	}
}

func sumOf(row []float32) (sum float64) {
	for _, p := range row {
		sum += float64(p)
	}
	return sum
}
