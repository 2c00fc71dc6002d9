//go:build !unix

package gateway

import "time"

// openFiles is how many files and connections this process may have open; 0: it is not known.
func openFiles() uint64 { return 0 }

// processorTime is what this process has had of processors.
func processorTime() (spent time.Duration, known bool) { return 0, false }
