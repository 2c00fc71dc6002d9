//go:build !amd64

package cpu

func round(dst []byte, x []float32) { roundGeneric(dst, x) }
func tileDots(dst []float32, x []byte, m *Matrix, p0 int, t tile) {
	tileDotsGeneric(dst, x, m, p0, t)
}
