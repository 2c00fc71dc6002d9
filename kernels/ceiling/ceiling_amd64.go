package ceiling

import (
	"golang.org/x/sys/cpu"

	"github.com/switchyard/switchyard/kernels/amx"
)

//go:noescape
func fma512(turns int)

//go:noescape
func fma256(turns int)

//go:noescape
func pairs512(turns int)

//go:noescape
func bytes512(turns int)

//go:noescape
func tilePairs(turns int)

//go:noescape
func tileBytes(turns int)

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

// pairsLoop runs turns of fmaPerTurn instructions that each add 32 products of bf16, and bytesLoop those that
// add 64 of bytes; false: the processor has none.
func pairsLoop(turns int) bool {
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512BF16 {
		pairs512(turns)
		return true
	}
	return false
}

func bytesLoop(turns int) bool {
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VNNI {
		bytes512(turns)
		return true
	}
	return false
}

// tilePairsLoop and tileBytesLoop run turns of six products of tiles.
func tilePairsLoop(turns int) bool {
	if amx.Usable() {
		tilePairs(turns)
	}
	return amx.Usable()
}

func tileBytesLoop(turns int) bool {
	if amx.Usable() {
		tileBytes(turns)
	}
	return amx.Usable()
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
