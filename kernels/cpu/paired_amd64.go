package cpu

func tilePairs(dst []float32, x []byte, w []uint16, t tile) {
	if active == generic || t.k == 0 {
		tilePairsGeneric(dst, x, w, t)
		return
	}
	t.panelStride *= 2
	t.rounded(dst, x, stored{Format: W16A16, w: pointerTo(w)}, t.k)
}

// pairs is part of rows in bf16.
func (a *tileArgs) pairs(rows, n int) int {
	switch {
	case active == avx512bf16:
		panels := panelsFor(rows, n)
		avx512bf16W16A16(rows, panels, a)
		return panels
	case active >= avx512:
		avx512W16A16(rows, 1, a)
	default:
		avx2W16A16(rows, 1, a)
		b := a.half(halfPanel[W16A16])
		avx2W16A16(rows, 1, &b)
	}
	return 1
}
