//go:build !amd64

package cpu

func transposeHalves([]uint16, [][]byte, int) int { return 0 }
func transposeWords([]byte, [][]byte, int) int    { return 0 }
func largestOf(tops, w []float32)                 { largestOfGeneric(tops, w) }
func codesOf(codes []byte, w []float32, by []float64, least, most int32) {
	codesOfGeneric(codes, w, by, least, most)
}
func joinHalves(dst, a, b []byte, bits byte) { joinHalvesGeneric(dst, a, b, bits) }

func packNibbles([]byte, [][]byte, byte) bool { return false }
