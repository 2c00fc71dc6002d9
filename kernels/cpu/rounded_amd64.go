package cpu

import "unsafe"

// round rounds a row of a multiple of QGroup inputs, and of at least one group.
func round(dst []byte, x []float32) {
	if active == generic {
		roundGeneric(dst, x)
		return
	}
	avx2Round(&dst[0], &x[0], len(x)/QGroup)
}

func tileDots(dst []float32, x, codes []byte, steps []uint16, t dots) {
	if active == generic || t.k == 0 {
		tileDotsGeneric(dst, x, codes, steps, t)
		return
	}
	t.scaleStride *= 2
	t.rounded(dst, x, stored{t.format, pointerTo(codes), pointerTo(steps)}, t.k/QGroup)
}

// rounded computes a tile of rounded rows in k steps; t.ldX, t.panelStride and t.scaleStride are bytes here.
func (t tile) rounded(dst []float32, x []byte, w stored, k int) {
	a := tileArgs{ldDst: t.ldDst * 4, ldX: t.ldX, panelStride: t.panelStride, scaleStride: t.scaleStride, k: k}
	a.dst, a.x, a.w, a.scales = pointerTo(dst), pointerTo(x), w.w, w.scales
	for r := 0; r < t.rows; r += chunkRows {
		a.each(r, min(t.rows, r+chunkRows), t.panels, w.Format)
	}
}

// dots is part of rows in 8 bits. Without VNNI, AVX2's kernels take half a panel a call.
func (a *tileArgs) dots(rows, n int, f Format) int {
	if active < avx512vnni {
		a.halfDots(rows, f)
		b := a.half(halfPanel[f])
		b.halfDots(rows, f)
		return 1
	}
	panels := 1
	if rows == 1 && n >= 4 {
		panels = 4
	} else if rows <= 3 && n >= 2 {
		panels = 2
	}
	if f == W8A8 {
		avx512W8A8(rows, panels, a)
	} else {
		avx512W4A8(rows, panels, a)
	}
	return panels
}

func (a *tileArgs) halfDots(rows int, f Format) {
	if f == W8A8 {
		avx2W8A8(rows, 1, a)
		return
	}
	avx2W4A8(rows, 1, a)
}

// pointerTo is the address of a slice's first element.
func pointerTo[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
