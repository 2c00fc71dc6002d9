package up

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
)

// parentOnly makes this test a process that starts a child, and waits.
const parentOnly = "TEST_PARENT"

// A child ends with the process that has started it, also when that one is killed.
func TestChildEndsWithParent(t *testing.T) {
	if os.Getenv(parentOnly) != "" {
		c, err := StartChild(t.Context(), func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "sleep", args...)
		}, nil, "1000")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(os.Stdout, "child", c.Cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		<-c.Ended
		return
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildEndsWithParent$")
	parent.Env = append(os.Environ(), parentOnly+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "child ")))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child is not there: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	testkit.Eventually(t, "the child has ended", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid) })
}

// zombie is a process that has ended, and that nobody has waited for.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
