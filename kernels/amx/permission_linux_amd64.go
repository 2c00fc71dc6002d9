package amx

import "syscall"

// What arch_prctl asks Linux for: permission to use the data of tiles. Processes begin without.
const (
	archPermission = 0x1023
	tilesData      = 18
)

// permitted has Linux allow tiles to all threads of this process, and those to come. Linux grants it only where it
// has set the bits of tiles in XCR0, saves them in switches, and each thread's signal stack has room for them.
func permitted() bool {
	_, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archPermission, tilesData, 0)
	return errno == 0
}
