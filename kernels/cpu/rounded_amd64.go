package cpu

import "unsafe"

// round rounds a row of a multiple of QGroup inputs, and of at least one group.
func round(dst []byte, x []float32) {
	if active == generic {
		roundGeneric(dst, x)
		return
	}
	avx2Round(&dst[0], &x[0], len(x)/QGroup)
}

func pointerTo[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }
