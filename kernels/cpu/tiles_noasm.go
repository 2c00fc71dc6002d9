//go:build !amd64

package cpu

func hasTiles() bool            { return false }
func placeLines(to, row []byte) { placeLinesGeneric(to, row) }

// tilePairsAMX is never called.
func tilePairsAMX([]float32, []byte, []uint16, tile) {}
