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

func tileCoded(dst, x []float32, m *Matrix, p0 int, t tile) { tileCodedGeneric(dst, x, m, p0, t) }

func tileCodes(dst, x []float32, w []byte, t tile) { tileCodesGeneric(dst, x, w, t) }

func tileCodesHeads(dst, x, w []float32, _, _ int, t tile) int {
	tileCodesGeneric(dst, x, bytesIn(w), t)
	return 1
}

func sum(acc *[lanes]float32, x []float32)                   { sumGeneric(acc, x) }
func sumCentred(acc *[lanes]float32, x []float32, m float32) { sumCentredGeneric(acc, x, m) }
func layerNorm(dst, x, weight, bias []float32, mean, inv float32) {
	layerNormGeneric(dst, x, weight, bias, mean, inv)
}
func gelu(dst, x []float32)     { geluGeneric(dst, x) }
func geluTanh(dst, x []float32) { geluTanhGeneric(dst, x) }

func transposeHalves([]uint16, [][]byte, int) int { return 0 }
func transposeWords([]byte, [][]byte, int) int    { return 0 }
func largestOf(tops, w []float32)                 { largestOfGeneric(tops, w) }
func codesOf(codes []byte, w []float32, by []float64, least, most int32) {
	codesOfGeneric(codes, w, by, least, most)
}
func joinHalves(dst, a, b []byte, bits byte) { joinHalvesGeneric(dst, a, b, bits) }

func packNibbles([]byte, [][]byte, byte) bool { return false }

func tilePairs(dst []float32, x []byte, w []uint16, t tile) { tilePairsGeneric(dst, x, w, t) }

func round(dst []byte, x []float32) { roundGeneric(dst, x) }
func tileDots(dst []float32, x []byte, m *Matrix, p0 int, t tile) {
	tileDotsGeneric(dst, x, m, p0, t)
}

func hasTiles() bool            { return false }
func placeLines(to, row []byte) { placeLinesGeneric(to, row) }

// tilePairsAMX is never called.
func tilePairsAMX([]float32, []byte, []uint16, tile) {}

func supported(v int) bool { return v == generic }
