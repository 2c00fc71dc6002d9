package cpu

// The vector kernels in assembly take at least one block.

func sumSquares(acc *[lanes]float32, x []float32) {
	switch {
	case active == generic || len(x) == 0:
		sumSquaresGeneric(acc, x)
	case active >= avx512:
		avx512SumSquares(&acc[0], &x[0], len(x))
	default:
		avx2SumSquares(&acc[0], &x[0], len(x))
	}
}

func norm(dst, x, weight []float32, inv float32) {
	switch {
	case active == generic || len(x) == 0:
		normGeneric(dst, x, weight, inv)
	case active >= avx512:
		avx512Norm(&dst[0], &x[0], &weight[0], len(x), inv)
	default:
		avx2Norm(&dst[0], &x[0], &weight[0], len(x), inv)
	}
}

func scaleMax(x []float32, a float32) float32 {
	switch {
	case active == generic || len(x) == 0:
		return scaleMaxGeneric(x, a)
	case active >= avx512:
		return avx512ScaleMax(&x[0], len(x), a)
	}
	return avx2ScaleMax(&x[0], len(x), a)
}

func most(x []float32) float32 {
	switch {
	case active == generic || len(x) == 0:
		return mostGeneric(x)
	case active >= avx512:
		return avx512Max(&x[0], len(x))
	}
	return avx2Max(&x[0], len(x))
}

func tree(l *[lanes]float32) float32 {
	switch {
	case active == generic:
		return treeGeneric(l)
	case active >= avx512:
		return avx512Tree(&l[0])
	}
	return avx2Tree(&l[0])
}

func turn(low, high, cos, sin []float32) {
	switch {
	case active == generic || len(low) == 0:
		turnGeneric(low, high, cos, sin)
	case active >= avx512:
		avx512RoPE(&low[0], &cos[0], &sin[0], &high[0], len(low))
	default:
		avx2RoPE(&low[0], &cos[0], &sin[0], &high[0], len(low))
	}
}

func expSum(acc *[lanes]float32, x []float32, top float32) {
	switch {
	case active == generic || len(x) == 0:
		expSumGeneric(acc, x, top)
	case active >= avx512:
		avx512ExpSum(&acc[0], &x[0], len(x), top)
	default:
		avx2ExpSum(&acc[0], &x[0], len(x), top)
	}
}

func swiGLU(dst, gate, up []float32) {
	switch {
	case active == generic || len(gate) == 0:
		swiGLUGeneric(dst, gate, up)
	case active >= avx512:
		avx512SwiGLU(&dst[0], &gate[0], &up[0], len(gate))
	default:
		avx2SwiGLU(&dst[0], &gate[0], &up[0], len(gate))
	}
}

func clampedSwiGLU(dst, gate, up []float32, limit float32) {
	switch {
	case active == generic || len(gate) == 0:
		clampedSwiGLUGeneric(dst, gate, up, limit)
	case active >= avx512:
		avx512ClampedSwiGLU(&dst[0], &gate[0], &up[0], len(gate), limit)
	default:
		avx2ClampedSwiGLU(&dst[0], &gate[0], &up[0], len(gate), limit)
	}
}

func add(dst, a []float32) {
	switch {
	case active == generic || len(a) == 0:
		addGeneric(dst, a)
	case active >= avx512:
		avx512Add(&dst[0], &a[0], len(a))
	default:
		avx2Add(&dst[0], &a[0], len(a))
	}
}

func scale(x []float32, a float32) {
	switch {
	case active == generic || len(x) == 0:
		scaleGeneric(x, a)
	case active >= avx512:
		avx512Scale(&x[0], len(x), a)
	default:
		avx2Scale(&x[0], len(x), a)
	}
}

func toBF16(dst []byte, src []float32) {
	switch {
	case active == generic || len(src) == 0:
		toBF16Generic(dst, src)
	case active >= avx512:
		avx512ToBF16(&dst[0], &src[0], len(src))
	default:
		avx2ToBF16(&dst[0], &src[0], len(src))
	}
}

func fromBF16(dst []float32, src []byte) {
	switch {
	case active == generic || len(src) == 0:
		fromBF16Generic(dst, src)
	case active >= avx512:
		avx512FromBF16(&dst[0], &src[0], len(dst))
	default:
		avx2FromBF16(&dst[0], &src[0], len(dst))
	}
}
