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
	tall := 2
	if active >= avx512vnni {
		tall = 7
	}
	t.k, t.scaleStride = t.k/QGroup, t.scaleStride*2
	t.eachStrip(dst, x, pointerTo(codes), pointerTo(steps), tall, func(a tileArgs, rows, panels int) { a.dots(rows, panels, t.format) })
}

// eachStrip calls f for every few rows and panels; t.ldX, t.panelStride and t.scaleStride are bytes here.
func (t tile) eachStrip(dst []float32, x []byte, w, scales unsafe.Pointer, tall int, f func(a tileArgs, rows, panels int)) {
	a := tileArgs{ldDst: t.ldDst * 4, ldX: t.ldX, panelStride: t.panelStride, scaleStride: t.scaleStride, k: t.k}
	for first := 0; first < t.rows; first += chunkRows {
		end := min(t.rows, first+chunkRows)
		for p := 0; p < t.panels; p += mostPanels {
			for r := first; r < end; {
				rows := nextRows(end-r, tall)
				a.x = unsafe.Add(pointerTo(x), r*a.ldX)
				a.dst = unsafe.Add(pointerTo(dst), r*a.ldDst+p*PanelWidth*4)
				a.w = unsafe.Add(w, p*a.panelStride)
				a.scales = unsafe.Add(scales, p*a.scaleStride)
				f(a, rows, min(mostPanels, t.panels-p))
				r += rows
			}
		}
	}
}

// dots computes rows × n panels. Without VNNI, AVX2's kernels take half a panel a call.
func (a tileArgs) dots(rows, n int, f Format) {
	for n > 0 {
		panels := 1
		switch {
		case active < avx512vnni:
			a.halfDots(rows, f)
			b := a
			b.dst, b.w, b.scales = unsafe.Add(a.dst, 32), unsafe.Add(a.w, 32), unsafe.Add(a.scales, 16)
			b.halfDots(rows, f)
		default:
			if rows == 1 && n >= 4 {
				panels = 4
			} else if rows <= 3 && n >= 2 {
				panels = 2
			}
			if f == W8A8 {
				avx512W8A8(rows, panels, &a)
			} else {
				avx512W4A8(rows, panels, &a)
			}
		}
		if n -= panels; n > 0 {
			a = a.next(panels)
		}
	}
}

func (a tileArgs) halfDots(rows int, f Format) {
	if f == W8A8 {
		avx2W8A8(rows, 1, &a)
		return
	}
	avx2W4A8(rows, 1, &a)
}

// pointerTo is the address of a slice's first element.
func pointerTo[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
