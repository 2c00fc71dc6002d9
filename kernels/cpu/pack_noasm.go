//go:build !amd64

package cpu

func transposeHalves([]uint16, [][]byte, int) int { return 0 }
func transposeWords([]byte, [][]byte) int         { return 0 }
