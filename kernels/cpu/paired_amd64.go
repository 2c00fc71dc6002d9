package cpu

func tilePairs(dst []float32, x []byte, w []uint16, t tile) {
	if active == generic || t.k == 0 {
		tilePairsGeneric(dst, x, w, t)
		return
	}
	a := tileArgs{dst: pointerTo(dst), ldDst: 4 * t.ldDst, x: pointerTo(x), ldX: t.ldX, w: pointerTo(w), panelStride: 2 * t.panelStride, k: t.k}
	a.chunks(t.rows, t.panels, W16A16)
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
