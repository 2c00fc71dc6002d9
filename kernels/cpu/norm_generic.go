package cpu

func sumGeneric(acc *[lanes]float32, x []float32) {
	for i, v := range x {
		acc[i%lanes] += v
	}
}

func sumCentredGeneric(acc *[lanes]float32, x []float32, mean float32) {
	for i, v := range x {
		c := v - mean
		acc[i%lanes] = fma32(c, c, acc[i%lanes])
	}
}

func layerNormGeneric(dst, x, weight, bias []float32, mean, inv float32) {
	for i, v := range x {
		dst[i] = fma32(float32((v-mean)*inv), weight[i], bias[i])
	}
}
