package cpu

// halfWidth is the number of outputs of half a panel.
const halfWidth = PanelWidth / 2

// tileHalfGeneric computes dst (rows, halfWidth) from x (rows, k) and one half
// panel of weights (k, halfWidth), in plain Go.
func tileHalfGeneric(dst, x, w []float32, t tile) {
	for r := range t.rows {
		var acc [halfWidth]float32
		for i, v := range x[r*t.ldX:][:t.k] {
			for j, weight := range w[i*t.step:][:halfWidth] {
				acc[j] = fma32(v, weight, acc[j])
			}
		}
		copy(dst[r*t.ldDst:], acc[:])
	}
}
