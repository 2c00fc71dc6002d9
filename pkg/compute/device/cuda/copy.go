package cuda

import (
	"runtime"
	"unsafe"

	"github.com/switchyard/switchyard/internal/parallel"
)

// One core copies to and from pinned memory at a tenth of what the bus takes, so pieces of so
// many bytes are copied side by side.
const copyPiece, copiersAtMost = 1 << 20, 8

// copyWide is copy, by several cores if there is much.
func copyWide[T byte | float32](to, from []T) (n int) {
	n = min(len(to), len(from))
	inPieces(n, copyPiece/int(unsafe.Sizeof(*new(T))), func(begin, end int) { copy(to[begin:end], from[begin:end]) })
	return n
}

// eachRow calls do for rows of so many float32 elements, by several cores if they are many.
func eachRow(rows, elements int, do func(row int)) {
	inPieces(rows, max(1, copyPiece/(4*elements)), func(begin, end int) {
		for i := begin; i < end; i++ {
			do(i)
		}
	})
}

// inPieces calls do for what is from 0 to n, in pieces side by side if there are two or more.
func inPieces(n, piece int, do func(begin, end int)) {
	if n < 2*piece {
		do(0, n)
		return
	}
	parallel.Each(min(copiersAtMost, runtime.GOMAXPROCS(0)), 0, ceil(n, piece), func(i int) {
		do(i*piece, min(n, (i+1)*piece))
	})
}
