//go:build !amd64

package cpu

func tilePairs(dst []float32, x []byte, w []uint16, t tile) { tilePairsGeneric(dst, x, w, t) }
