package fleet

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// Starve lets a program have no more memory than it has, until Feed: one that
// needs more ends, as Go programs do.
func (p *Process) Starve() error {
	has, err := p.dataBytes()
	if err != nil {
		return err
	}
	limit, err := p.dataLimit(nil)
	if err != nil {
		return err
	}
	limit.Cur = min(has, limit.Max)
	_, err = p.dataLimit(&limit)
	return err
}

// Feed ends Starve.
func (p *Process) Feed() error {
	limit, err := p.dataLimit(nil)
	if err != nil {
		return err
	}
	limit.Cur = limit.Max
	_, err = p.dataLimit(&limit)
	return err
}

// dataLimit changes the limit of what a program may write to, if to is not nil, and
// returns the one before.
func (p *Process) dataLimit(to *syscall.Rlimit) (before syscall.Rlimit, err error) {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.PID()), syscall.RLIMIT_DATA,
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(&before)), 0, 0)
	if errno != 0 {
		return before, fmt.Errorf("limiting the memory of %s: %w", p.name, errno)
	}
	return before, nil
}

// dataBytes is how much of it a program has.
func (p *Process) dataBytes() (bytes uint64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	_, line, _ := strings.Cut(string(status), "VmData:")
	if _, err := fmt.Sscan(line, &bytes); err != nil {
		return 0, fmt.Errorf("looking how much memory %s has: %w", p.name, err)
	}
	return bytes << 10, nil
}
