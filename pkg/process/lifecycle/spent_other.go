//go:build !unix

package lifecycle

import "time"

// spent is what this process has had of processors.
func spent() (_ time.Duration, known bool) { return 0, false }
