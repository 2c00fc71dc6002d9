//go:build !amd64

package cpu

func sum(acc *[lanes]float32, x []float32)                   { sumGeneric(acc, x) }
func sumCentred(acc *[lanes]float32, x []float32, m float32) { sumCentredGeneric(acc, x, m) }
func layerNorm(dst, x, weight, bias []float32, mean, inv float32) {
	layerNormGeneric(dst, x, weight, bias, mean, inv)
}
func gelu(dst, x []float32)     { geluGeneric(dst, x) }
func geluTanh(dst, x []float32) { geluTanhGeneric(dst, x) }
