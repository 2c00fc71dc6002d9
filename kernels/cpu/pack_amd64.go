package cpu

import "unsafe"

// transposeHalves packs inputs of a whole panel of bf16, from the first one on, and returns how many.
func transposeHalves(panel []uint16, rows [][]byte, k int) int {
	stride, ok := strideOf(rows, PanelWidth)
	block := 16
	if active >= avx512 {
		block = 32
	}
	blocks := k / block
	if !ok || blocks == 0 {
		return 0
	}
	pack := avx2PackHalves
	if active >= avx512 {
		pack = avx512PackHalves
	}
	pack((*byte)(unsafe.Pointer(&panel[0])), &rows[0][0], stride, blocks)
	return blocks * block
}

// transposeWords packs words of a panel whose lines have as many as there are rows, and returns how many bytes of each row.
func transposeWords(panel []byte, rows [][]byte, width int) int {
	stride, ok := strideOf(rows, width)
	if !ok {
		return 0
	}
	block, pack := 32, avx2PackWords
	switch {
	case active >= avx512 && width == PanelWidth:
		block, pack = 64, avx512PackWords
	case active >= avx512:
		block, pack = 64, avx512PackHalfWords
	case width < PanelWidth:
		pack = avx2PackHalfWords
	}
	blocks := len(rows[0]) / block
	if blocks > 0 {
		pack(&panel[0], &rows[0][0], stride, blocks)
	}
	return blocks * block
}

// strideOf returns the distance of so many rows that lie at the same distances.
func strideOf(rows [][]byte, width int) (stride int, ok bool) {
	if active == generic || len(rows) != width || len(rows[0]) == 0 {
		return 0, false
	}
	at := func(i int) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(rows[i]))) }
	each := at(1) - at(0)
	for i := 2; i < width; i++ {
		if at(i)-at(i-1) != each {
			return 0, false
		}
	}
	return int(each), true //nolint:gosec // a negative distance wraps as it should
}

// largestOf finds the weight of the largest magnitude of each group.
func largestOf(tops, w []float32) {
	switch {
	case active == generic || len(tops) == 0:
		largestOfGeneric(tops, w)
	case active >= avx512:
		avx512Tops(&tops[0], &w[0], len(tops))
	default:
		avx2Tops(&tops[0], &w[0], len(tops))
	}
}

func codesOf(codes []byte, w []float32, by []float64, least, most int32) {
	switch {
	case active == generic || len(by) == 0:
		codesOfGeneric(codes, w, by, least, most)
	case active >= avx512:
		avx512Codes(&codes[0], &w[0], &by[0], len(by), least, most)
	default:
		avx2Codes(&codes[0], &w[0], &by[0], len(by), least, most)
	}
}

// joinHalves gives halves of bytes of two rows a byte each.
func joinHalves(dst, a, b []byte, bits byte) {
	done := 0
	if blocks := len(a) / 32; active != generic && blocks > 0 {
		avx2Join(&dst[0], &a[0], &b[0], blocks, uint32(bits)*0x01010101)
		done = 32 * blocks
	}
	joinHalvesGeneric(dst[2*done:], a[done:], b[done:], bits)
}

// packNibbles packs a whole panel's rows of codes of four bits as packHalfBytes does, and reports whether it did.
func packNibbles(panel []byte, rows [][]byte, bits byte) bool {
	const block = 32
	stride, ok := strideOf(rows, PanelWidth)
	if !ok || active < avx512 || len(rows[0])%block != 0 {
		return false
	}
	avx512PackNibbles(&panel[0], &rows[0][0], stride, len(rows[0])/block, uint32(bits)*0x01010101)
	return true
}
