//go:build !linux

package main

// machineMemory is how many bytes of memory this machine has; 0: nobody knows.
func machineMemory() uint64 { return 0 }
