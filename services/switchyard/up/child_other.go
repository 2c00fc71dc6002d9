//go:build !linux

package up

import "os/exec"

// endWithParent does nothing: only Linux has it.
func endWithParent(*exec.Cmd) {}
