//go:build !amd64

package cpu

func tileCodes(dst, x []float32, w []byte, t tile) { tileCodesGeneric(dst, x, w, t) }

func tileCodesHeads(dst, x, w []float32, _, _ int, t tile) int {
	tileCodesGeneric(dst, x, bytesIn(w), t)
	return 1
}
