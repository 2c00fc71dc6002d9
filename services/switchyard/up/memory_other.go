//go:build !linux

package up

// MachineMemory is how many bytes of memory this machine has; 0: nobody knows.
func MachineMemory() uint64 { return 0 }
