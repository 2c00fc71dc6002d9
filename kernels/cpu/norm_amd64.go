package cpu

func sum(acc *[lanes]float32, x []float32) {
	switch {
	case active == generic || len(x) == 0:
		sumGeneric(acc, x)
	case active >= avx512:
		avx512Sum(&acc[0], &x[0], len(x))
	default:
		avx2Sum(&acc[0], &x[0], len(x))
	}
}

func sumCentred(acc *[lanes]float32, x []float32, mean float32) {
	switch {
	case active == generic || len(x) == 0:
		sumCentredGeneric(acc, x, mean)
	case active >= avx512:
		avx512SumCentred(&acc[0], &x[0], len(x), mean)
	default:
		avx2SumCentred(&acc[0], &x[0], len(x), mean)
	}
}

func layerNorm(dst, x, weight, bias []float32, mean, inv float32) {
	switch {
	case active == generic || len(x) == 0:
		layerNormGeneric(dst, x, weight, bias, mean, inv)
	case active >= avx512:
		avx512LayerNorm(&dst[0], &x[0], &bias[0], &weight[0], len(x), mean, inv)
	default:
		avx2LayerNorm(&dst[0], &x[0], &bias[0], &weight[0], len(x), mean, inv)
	}
}

func gelu(dst, x []float32) {
	switch {
	case active == generic || len(x) == 0:
		geluGeneric(dst, x)
	case active >= avx512:
		avx512GELU(&dst[0], &x[0], len(x))
	default:
		avx2GELU(&dst[0], &x[0], len(x))
	}
}

func geluTanh(dst, x []float32) {
	switch {
	case active == generic || len(x) == 0:
		geluTanhGeneric(dst, x)
	case active >= avx512:
		avx512GELUTanh(&dst[0], &x[0], len(x))
	default:
		avx2GELUTanh(&dst[0], &x[0], len(x))
	}
}
