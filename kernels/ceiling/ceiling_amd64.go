package ceiling

import "golang.org/x/sys/cpu"

//go:noescape
func fma512(turns int)

//go:noescape
func fma256(turns int)

//go:noescape
func read512(b *byte, n int)

//go:noescape
func read256(b *byte, n int)

// fmaLoop runs turns of fmaPerTurn FMAs on vectors of at most so many floats;
// it returns the vector's width.
func fmaLoop(turns, most int) (width int) {
	switch {
	case cpu.X86.HasAVX512F && most >= 16:
		fma512(turns)
		return 16
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA && most >= 8:
		fma256(turns)
		return 8
	}
	return fmaGeneric(turns)
}

// readLoop reads b, a multiple of 512 bytes.
func readLoop(b []byte) {
	switch {
	case cpu.X86.HasAVX512F:
		read512(&b[0], len(b))
	case cpu.X86.HasAVX2:
		read256(&b[0], len(b))
	default:
		readGeneric(b)
	}
}
