//go:build !amd64

package cpu

func tileCoded(dst, x []float32, m *Matrix, p0 int, t tile) { tileCodedGeneric(dst, x, m, p0, t) }
