package cpu

import "unsafe"

// halfLanes reports whether half a panel costs half as much. AVX2 has no kernel
// for it.
func halfLanes() bool { return active != avx2 }

// tileHalf computes dst (rows, halfWidth) from x (rows, k) and one half panel of
// weights.
func tileHalf(dst, x, w []float32, t tile) {
	if active < avx512 || t.k == 0 {
		tileHalfGeneric(dst, x, w, t)
		return
	}
	a := tileArgs{
		w: unsafe.Pointer(unsafe.SliceData(w)), ldDst: t.ldDst * 4, ldX: t.ldX * 4,
		step: t.step * 4, k: t.k, ahead: t.ahead,
	}
	for r := 0; r < t.rows; {
		a.dst = unsafe.Pointer(unsafe.SliceData(dst[r*t.ldDst:]))
		a.x = unsafe.Pointer(unsafe.SliceData(x[r*t.ldX:]))
		r += avx512Half(t.rows-r, &a)
		a.ahead += t.k * t.step * 4 // what the rows before have asked for lies before it
	}
}
