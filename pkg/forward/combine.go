package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// Combine is out (R, D) = Σ over slots of partials (R, K, D), in slot order.
func Combine(out, partials []float32, k, d int) {
	for r := range len(out) / d {
		dst := out[r*d : (r+1)*d]
		from := partials[r*k*d:]
		copy(dst, from[:d])
		for s := 1; s < k; s++ {
			cpu.Add(dst, from[s*d:(s+1)*d])
		}
	}
}
