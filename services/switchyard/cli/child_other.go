//go:build !linux

package cli

import "os/exec"

// endWithParent does nothing: only Linux has it.
func endWithParent(*exec.Cmd) {}
