package up

import (
	"os/exec"
	"syscall"
)

// endWithParent has the kernel kill a child when this process ends.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
