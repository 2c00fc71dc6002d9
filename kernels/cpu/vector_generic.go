package cpu

import "math"

// lanes is the number of lanes that sums run over.
const lanes = 16

// The kernels below work on vectors of a multiple of lanes values.

func sumSquaresGeneric(acc *[lanes]float32, x []float32) {
	for i, v := range x {
		acc[i%lanes] = fma32(v, v, acc[i%lanes])
	}
}

func normGeneric(dst, x, weight []float32, inv float32) {
	for i, v := range x {
		dst[i] = weight[i] * (v * inv)
	}
}

// scaleMaxGeneric is x *= a; it returns the largest product.
func scaleMaxGeneric(x []float32, a float32) float32 {
	top := float32(math.Inf(-1))
	for i := range x {
		x[i] *= a
		if x[i] > top {
			top = x[i]
		}
	}
	return top
}

// mostGeneric returns the largest value, which no NaN is.
func mostGeneric(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// treeGeneric sums the lanes in the order that the contract states.
func treeGeneric(l *[lanes]float32) float32 {
	for half := lanes / 2; half > 0; half /= 2 {
		for i := range half {
			l[i] += l[i+half]
		}
	}
	return l[0]
}

func turnGeneric(low, high, cos, sin []float32) {
	for i, a := range low {
		b := high[i]
		low[i] = float32(a*cos[i]) - float32(b*sin[i])
		high[i] = float32(b*cos[i]) + float32(a*sin[i])
	}
}

func expSumGeneric(acc *[lanes]float32, x []float32, top float32) {
	for i, v := range x {
		x[i] = exp32(v - top)
		acc[i%lanes] += x[i]
	}
}

func swiGLUGeneric(dst, gate, up []float32) {
	for i, v := range gate {
		dst[i] = v / (1 + exp32(-v)) * up[i]
	}
}

// clampedAlpha is what the gate is multiplied by before the sigmoid.
const clampedAlpha = 1.702

// clampedSwiGLUGeneric is dst = (up + 1) · (gate / (1 + e^(-1.702·gate))), both
// cut off at limit.
func clampedSwiGLUGeneric(dst, gate, up []float32, limit float32) {
	for i, g := range gate {
		u := up[i]
		if limit < g { // a NaN stays
			g = limit
		}
		if limit < u {
			u = limit
		}
		if -limit > u {
			u = -limit
		}
		s := g / (1 + exp32(float32(g*-clampedAlpha)))
		dst[i] = (u + 1) * s
	}
}

func addGeneric(dst, a []float32) {
	for i, v := range a {
		dst[i] += v
	}
}

func scaleGeneric(x []float32, a float32) {
	for i := range x {
		x[i] *= a
	}
}
