// Package amx tells whether this process may use Intel's AMX: tiles of 16 rows of 64 bytes, and instructions that multiply
// two of them.
package amx

import "sync"

// Usable reports whether the processor multiplies tiles of bytes and of bf16, and the system allows this process to use them.
var Usable = sync.OnceValue(func() bool { return supported() && permitted() })
