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

// populate has memory given that nobody has written yet.
func populate(first unsafe.Pointer, bytes int) {
	const (
		page          = 4096
		populateWrite = 23 // MADV_POPULATE_WRITE, since Linux 5.14
	)
	from, to := uintptr(first)&^(page-1), (uintptr(first)+uintptr(bytes)+page-1)&^(page-1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, populateWrite) // it only saves time
}
