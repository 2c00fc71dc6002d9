package cpu

import "unsafe"

// each cuts rows [from, end) and so many panels into the kernels' shapes. Every few panels meet all
// rows before the next panels are read.
//
// A kernel's arguments are written in place, in a copy that is this call's alone: copying for each kernel what was
// written just now in words takes as long as some of the kernels. Go code writes nothing through a pointer to them, or
// the compiler would move every caller's vectors to the heap; kernels write zeros alone.
func (a tileArgs) each(from, end, panels int, f Format) {
	b := a
	height, taller := heights(end-from, tallest(f))
	for p := 0; p < panels; p += mostPanels {
		for r, left := from, taller; r < end; left-- {
			rows := height
			if left > 0 {
				rows++
			}
			b.x = unsafe.Add(a.x, r*a.ldX)
			for q := p; q < min(panels, p+mostPanels); {
				b.dst = unsafe.Add(a.dst, r*a.ldDst+q*PanelWidth*4)
				b.w = unsafe.Add(a.w, q*a.panelStride)
				b.scales = unsafe.Add(a.scales, q*a.scaleStride)
				b.tops = unsafe.Add(a.tops, q*a.topStride)
				q += b.part(rows, min(panels, p+mostPanels)-q, f)
			}
			r += rows
		}
	}
}

// mostPanels is the most that one call of a kernel takes.
const mostPanels = 4

// tallest returns the most rows that one call of a kernel takes. Scales of packed
// weights take registers too.
func tallest(f Format) int {
	switch {
	case f == W8A8 || f == W4A8 || f == byHalves: // a float and a whole number for each output
		if active >= avx512vnni {
			return 7
		}
		return 2
	case f == Q8 && active >= avx512vnni:
		return basedRowsQ8
	case active >= avx512:
		return 12
	case f >= MXFP4:
		return 4
	}
	return 6
}

// heights cuts rows into the fewest parts of nearly equal height: a short last part would keep too few
// accumulators busy. Some first parts have a row more than height.
func heights(rows, tall int) (height, taller int) {
	parts := max(1, (rows+tall-1)/tall)
	return rows / parts, rows % parts
}

// part computes rows of some of n panels, and returns of how many.
func (a *tileArgs) part(rows, n int, f Format) int {
	switch {
	case f == W16A16:
		return a.pairs(rows, n)
	case f >= W8A8:
		return a.dots(rows, f)
	case active >= avx512:
		return a.part512(rows, n, f)
	}
	return a.part2(rows, n, f)
}

// part512 takes as many panels as the registers hold for so many rows.
func (a *tileArgs) part512(rows, n int, f Format) int {
	if panels := a.partBased(rows, n, f); panels > 0 {
		return panels
	}
	height := rows
	if f >= MXFP4 {
		height++ // scales take registers, too
	}
	panels := panelsFor(height, n)
	switch f {
	case BF16:
		avx512BF16(rows, panels, a)
	case F32:
		avx512F32(rows, panels, a)
	case MXFP4:
		avx512MXFP4(rows, panels, a)
	case FP8:
		avx512FP8(rows, panels, a)
	case Q8:
		avx512Q8(rows, panels, a)
	case Q4:
		avx512Q4(rows, panels, a)
	}
	return panels
}

// panelsFor returns how many of n panels AVX-512's registers hold for so many rows.
func panelsFor(rows, n int) int {
	switch {
	case rows <= 3 && n >= 4:
		return 4
	case rows <= 6 && n >= 2:
		return 2
	}
	return 1
}

// part2 takes two panels, one, or twice half of one.
func (a *tileArgs) part2(rows, n int, f Format) int {
	panels, whole := 1, 3 // rows of a call that takes whole panels
	switch {
	case f >= MXFP4:
		whole = 1
	case rows == 1 && n >= 2:
		panels = 2
	}
	if rows <= whole {
		a.call2(rows, 2*panels, f)
	} else {
		a.halves(rows, f)
	}
	return panels
}

func (a *tileArgs) call2(rows, groups int, f Format) {
	switch f {
	case F32:
		avx2F32(rows, groups, a)
	case BF16:
		avx2BF16(rows, groups, a)
	case MXFP4:
		avx2MXFP4(rows, groups, a)
	case FP8:
		avx2FP8(rows, groups, a)
	case Q8:
		avx2Q8(rows, groups, a)
	case Q4:
		avx2Q4(rows, groups, a)
	}
}

// halves computes a panel in two calls: outputs 0–7 and 16–23, then the others.
func (a *tileArgs) halves(rows int, f Format) {
	a.call2(rows, 1, f)
	b := a.half(halfPanel[f])
	b.call2(rows, 1, f)
}

func (a *tileArgs) half(by distances) tileArgs {
	b := *a
	b.dst, b.w = unsafe.Add(a.dst, by.dst), unsafe.Add(a.w, by.w)
	if by.scales > 0 {
		b.scales = unsafe.Add(a.scales, by.scales)
	}
	return b
}

type distances struct{ dst, w, scales int }

// halfPanel is the distance in bytes from output 0 of a panel to output 8.
var halfPanel = [...]distances{
	F32: {32, 32, 0}, BF16: {32, 32, 0}, MXFP4: {32, 32, 8}, FP8: {32, 16, 32}, Q8: {32, 32, 16}, Q4: {32, 32, 16},
	W16A16: {32, 32, 0},
}
