package cpu

import "math"

// LayerNorm is dst = weight · (x − mean) / sqrt(variance + eps) + bias for one
// row, the variance that of the whole population; dst may be x.
func LayerNorm(dst, x, weight, bias []float32, eps float32) {
	mustMatch("LayerNorm", len(x), len(dst), len(weight), len(bias))
	n := whole(len(x))
	mean := meanOf(x, n)
	inv := 1 / float32(math.Sqrt(float64(varianceOf(x, n, mean)+eps)))
	layerNorm(dst[:n], x[:n], weight[:n], bias[:n], mean, inv)
	layerNormGeneric(dst[n:], x[n:], weight[n:], bias[n:], mean, inv)
}

func meanOf(x []float32, n int) float32 {
	var acc, rest [lanes]float32
	sum(&acc, x[:n])
	if n < len(x) {
		copy(rest[:], x[n:])
		sum(&acc, rest[:])
	}
	return tree(&acc) / float32(len(x))
}

// varianceOf pads the last block with the mean, which adds nothing.
func varianceOf(x []float32, n int, mean float32) float32 {
	var acc [lanes]float32
	sumCentred(&acc, x[:n], mean)
	if n < len(x) {
		rest := filled(float64(mean))
		copy(rest[:], x[n:])
		sumCentred(&acc, rest[:], mean)
	}
	return tree(&acc) / float32(len(x))
}

// GELU is dst = x · Φ(x), Φ the normal distribution; dst may be x.
func GELU(dst, x []float32) {
	mustMatch("GELU", len(x), len(dst))
	n := whole(len(x))
	gelu(dst[:n], x[:n])
	geluGeneric(dst[n:], x[n:])
}

// GELUTanh is GELU by its approximation x·(1+tanh(√(2/π)·(x+0.044715·x³)))/2;
// dst may be x.
func GELUTanh(dst, x []float32) {
	mustMatch("GELUTanh", len(x), len(dst))
	n := whole(len(x))
	geluTanh(dst[:n], x[:n])
	geluTanhGeneric(dst[n:], x[n:])
}
