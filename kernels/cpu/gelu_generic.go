package cpu

import "math"

// Constants of gelu32 and geluTanh32, shared with the assembly.
const (
	geluTail = 0.36
	gelu8    = -0.030341848
	gelu7    = 0.13993604
	gelu6    = -0.22433213
	gelu5    = 0.10804374
	gelu4    = -0.00074800761
	gelu3    = 0.096151581
	gelu2    = 0.12398928
	gelu1    = 0.14368376
	gelu0    = 0.14361760

	tanh1 = -1.5957691   // −2·√(2/π)
	tanh3 = -0.071354815 // that times 0.044715
)

// gelu32 is x·Φ(x), Φ the normal distribution. Below zero
// Φ(−t) = e^(−t²/2)·R(t), where R falls slowly: it is s times a polynomial of
// s = 1/(1+0.36·t), whose coefficients were fitted for a relative error below
// 1e-7 (t < 40). Above, Φ(t) = 1 − Φ(−t).
func gelu32(x float32) float32 {
	t := math.Float32frombits(math.Float32bits(x) &^ (1 << 31))
	s := 1 / fma32(geluTail, t, 1)
	q := fma32(gelu8, s, gelu7)
	q = fma32(q, s, gelu6)
	q = fma32(q, s, gelu5)
	q = fma32(q, s, gelu4)
	q = fma32(q, s, gelu3)
	q = fma32(q, s, gelu2)
	q = fma32(q, s, gelu1)
	q = fma32(q, s, gelu0)
	q = float32(float32(q*s) * exp32(float32(float32(t*t)*-0.5)))
	if math.Signbit(float64(x)) {
		return x * q
	}
	return x * (1 - q)
}

// geluTanh32 is x·(1+tanh(√(2/π)·(x+0.044715·x³)))/2, which is x/(1+e^z) for
// z = x·(tanh1 + tanh3·x²).
func geluTanh32(x float32) float32 {
	z := float32(x * fma32(tanh3, float32(x*x), tanh1))
	return x / (1 + exp32(z))
}

func geluGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] = gelu32(v)
	}
}

func geluTanhGeneric(dst, x []float32) {
	for i, v := range x {
		dst[i] = geluTanh32(v)
	}
}
