//go:build !amd64

package cpu

func round(dst []byte, x []float32) { roundGeneric(dst, x) }
func tileDots(dst []float32, x, codes []byte, steps []uint16, t dots) {
	tileDotsGeneric(dst, x, codes, steps, t)
}
