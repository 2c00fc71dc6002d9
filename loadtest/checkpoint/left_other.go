//go:build !unix

package checkpoint

import (
	"errors"
	"os"
)

// flock says that there are no locks here that end with a process.
func flock(*os.File) error { return errors.ErrUnsupported }
