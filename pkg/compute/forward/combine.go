package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// Combine is out (R, D) = Σ over slots of partials (R·K, D), in slot order. The
// partial of row r and slot s is number at[r·K + s]; without at they are in order.
func Combine(out, partials []float32, at []int32, k, d int) {
	combineRows(out, partials, at, k, d, 0, len(out)/d)
}

func combineRows(out, partials []float32, at []int32, k, d, first, end int) {
	partial := func(i int) []float32 {
		if at != nil {
			i = int(at[i])
		}
		return partials[i*d : (i+1)*d]
	}
	for r := first; r < end; r++ {
		dst := out[r*d : (r+1)*d]
		copy(dst, partial(r*k))
		for s := 1; s < k; s++ {
			cpu.Add(dst, partial(r*k+s))
		}
	}
}
