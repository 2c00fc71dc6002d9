//go:build !amd64

package ceiling

func fmaLoop(turns, _ int) (width int) { return fmaGeneric(turns) }
func pairsLoop(int) bool               { return false }
func bytesLoop(int) bool               { return false }
func tilePairsLoop(int) bool           { return false }
func tileBytesLoop(int) bool           { return false }
func readLoop(b []byte)                { readGeneric(b) }
