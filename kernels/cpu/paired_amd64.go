package cpu

import "unsafe"

func tilePairs(dst []float32, x []byte, w []uint16, t tile) {
	if active == generic || t.k == 0 {
		tilePairsGeneric(dst, x, w, t)
		return
	}
	t.panelStride *= 2
	tall := 12
	if active == avx2 {
		tall = 4
	}
	t.eachStrip(dst, x, pointerTo(w), nil, tall, func(a tileArgs, rows, panels int) { a.pairs(rows, panels) })
}

// pairs computes rows × n panels.
func (a tileArgs) pairs(rows, n int) {
	for n > 0 {
		panels := 1
		switch {
		case active == avx512bf16:
			panels = panelsFor(rows, n)
			avx512bf16W16A16(rows, panels, &a)
		case active >= avx512:
			avx512W16A16(rows, 1, &a)
		default:
			avx2W16A16(rows, 1, &a)
			b := a
			b.dst, b.w = unsafe.Add(a.dst, 32), unsafe.Add(a.w, 32)
			avx2W16A16(rows, 1, &b)
		}
		if n -= panels; n > 0 {
			a = a.next(panels)
		}
	}
}
