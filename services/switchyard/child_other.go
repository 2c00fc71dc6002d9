//go:build !linux

package main

import "os/exec"

// endWithParent does nothing: only Linux has it.
func endWithParent(*exec.Cmd) {}
