//go:build !amd64

package ceiling

func fmaLoop(turns, _ int) (width int) { return fmaGeneric(turns) }
func readLoop(b []byte)                { readGeneric(b) }
