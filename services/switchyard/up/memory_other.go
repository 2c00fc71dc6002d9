//go:build !linux

package up

// machineMemory returns how many bytes of memory this machine has; 0: nobody knows.
func machineMemory() uint64 { return 0 }
