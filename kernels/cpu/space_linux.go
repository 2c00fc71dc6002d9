package cpu

import (
	"syscall"
	"unsafe"
)

// preferHuge asks for huge pages where memory lies that nobody has written yet. Pages at its ends are shared with
// what lies beside it, which is Go's heap, too: the heap grows by 4 MiB.
func preferHuge(first unsafe.Pointer, bytes int) {
	from, to := uintptr(first), uintptr(first)+uintptr(bytes)
	from, to = from&^(hugePage-1), (to+hugePage-1)&^(hugePage-1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE) // it only saves time
}
