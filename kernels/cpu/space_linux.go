package cpu

import (
	"syscall"
	"unsafe"
)

// preferHuge asks for huge pages where memory lies that nobody has written yet. Pages at its ends are shared with
// what lies beside it, which is Go's heap, too: the heap grows by 4 MiB.
func preferHuge(first unsafe.Pointer, bytes int) {
	before := int(uintptr(first) % hugePage)
	whole := (before + bytes + hugePage - 1) &^ (hugePage - 1)
	_ = syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(first, -before)), whole), syscall.MADV_HUGEPAGE) // it only saves time
}
