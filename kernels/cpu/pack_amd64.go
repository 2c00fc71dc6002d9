package cpu

import "unsafe"

// transposeHalves packs inputs of a whole panel of bf16, from the first one on, and returns how many.
func transposeHalves(panel []uint16, rows [][]byte, k int) int {
	stride, ok := strideOf(rows)
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

// transposeWords packs words of a whole panel, and returns how many bytes of each row.
func transposeWords(panel []byte, rows [][]byte) int {
	stride, ok := strideOf(rows)
	if !ok {
		return 0
	}
	block, pack := 32, avx2PackWords
	if active >= avx512 {
		block, pack = 64, avx512PackWords
	}
	blocks := len(rows[0]) / block
	if blocks > 0 {
		pack(&panel[0], &rows[0][0], stride, blocks)
	}
	return blocks * block
}

// strideOf is the distance of rows that fill a panel and lie at the same distances.
func strideOf(rows [][]byte) (stride int, ok bool) {
	if active == generic || len(rows) < PanelWidth || len(rows[0]) == 0 {
		return 0, false
	}
	at := func(i int) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(rows[i]))) }
	each := at(1) - at(0)
	for i := 2; i < PanelWidth; i++ {
		if at(i)-at(i-1) != each {
			return 0, false
		}
	}
	return int(each), true //nolint:gosec // a negative distance wraps as it should
}
