//go:build !amd64

package cpu

func tileF32Heads(dst, x, w []float32, _, _ int, t tile) int {
	tileF32Generic(dst, x, w, t)
	return 1
}

func tileBF16Heads(dst, x, w []float32, _, _ int, t tile) int {
	tileBF16Generic(dst, x, halves(w), t)
	return 1
}

func halfLanes() bool                               { return true }
func tileHalf(dst, x, w []float32, t tile)          { tileHalfGeneric(dst, x, w, t) }
func tileF32(dst, x, w []float32, t tile)           { tileF32Generic(dst, x, w, t) }
func tileBF16(dst, x []float32, w []uint16, t tile) { tileBF16Generic(dst, x, w, t) }
func tileMXFP4(dst, x []float32, codes, exps []byte, t tile) {
	tileMXFP4Generic(dst, x, codes, exps, t)
}
func tileFP8(dst, x []float32, codes []byte, scales []float32, t tile) {
	tileFP8Generic(dst, x, codes, scales, t)
}
func tileQ(dst, x []float32, codes []byte, steps []uint16, f Format, t tile) {
	tileQGeneric(dst, x, codes, steps, f, t)
}
func sumSquares(acc *[lanes]float32, x []float32)        { sumSquaresGeneric(acc, x) }
func norm(dst, x, weight []float32, inv float32)         { normGeneric(dst, x, weight, inv) }
func scaleMax(x []float32, a float32) float32            { return scaleMaxGeneric(x, a) }
func most(x []float32) float32                           { return mostGeneric(x) }
func tree(l *[lanes]float32) float32                     { return treeGeneric(l) }
func turn(low, high, cos, sin []float32)                 { turnGeneric(low, high, cos, sin) }
func expSum(acc *[lanes]float32, x []float32, t float32) { expSumGeneric(acc, x, t) }
func swiGLU(dst, gate, up []float32)                     { swiGLUGeneric(dst, gate, up) }
func clampedSwiGLU(dst, gate, up []float32, limit float32) {
	clampedSwiGLUGeneric(dst, gate, up, limit)
}
func add(dst, a []float32)               { addGeneric(dst, a) }
func scale(x []float32, a float32)       { scaleGeneric(x, a) }
func toBF16(dst []byte, src []float32)   { toBF16Generic(dst, src) }
func fromBF16(dst []float32, src []byte) { fromBF16Generic(dst, src) }
