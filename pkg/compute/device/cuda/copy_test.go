package cuda

import (
	"slices"
	"testing"
)

// Every element and every row is copied once, however many pieces they are in.
func TestCopies(t *testing.T) {
	for _, n := range []int{0, 1, copyPiece/4 - 1, copyPiece / 2, copyPiece/2 + 1, copyPiece + 3} {
		from, to := spreadFrom(n), make([]float32, n+1)
		if got := copyWide(to, from); got != n || !slices.Equal(to[:n], from) || to[n] != 0 {
			t.Errorf("%d of %d elements are copied, or others", got, n)
		}
		const elements = 64
		calls := make([]int, n/elements)
		eachRow(len(calls), elements, func(row int) { calls[row]++ })
		if slices.ContainsFunc(calls, func(times int) bool { return times != 1 }) {
			t.Errorf("of %d rows not each is copied once", len(calls))
		}
	}
}

func spreadFrom(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i + 1)
	}
	return x
}
