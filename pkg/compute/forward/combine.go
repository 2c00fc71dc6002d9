package forward

import "github.com/switchyard/switchyard/kernels/cpu"

// Combine is out (R, D) = Σ over slots of partials (R·k, D), in slot order. The
// partial of row r and slot s is number at[r·k + s], and there is none if that is
// negative; without at they are in order.
func Combine(out, partials []float32, at []int32, k, d int) {
	for r := range len(out) / d {
		dst, begun := out[r*d:(r+1)*d], false
		for i := r * k; i < (r+1)*k; i++ {
			n := i
			if at != nil {
				n = int(at[i])
			}
			switch {
			case n < 0:
			case begun:
				cpu.Add(dst, partials[n*d:(n+1)*d])
			default: // not added to zeros: −0 stays what it is
				copy(dst, partials[n*d:(n+1)*d])
				begun = true
			}
		}
		if !begun {
			clear(dst)
		}
	}
}
