package up

import "syscall"

// machineMemory returns how many bytes of memory this machine has; 0: nobody knows.
func machineMemory() uint64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // they are narrower elsewhere
}
