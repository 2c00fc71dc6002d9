package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// Combine is out (R, D) = Σ over slots of partials (R, K, D), in slot order.
func Combine(out, partials []float32, k, d int) {
	combineRows(out, partials, k, d, 0, len(out)/d)
}

func combineRows(out, partials []float32, k, d, first, end int) {
	for r := first; r < end; r++ {
		dst := out[r*d : (r+1)*d]
		from := partials[r*k*d:]
		copy(dst, from[:d])
		for s := 1; s < k; s++ {
			cpu.Add(dst, from[s*d:(s+1)*d])
		}
	}
}
