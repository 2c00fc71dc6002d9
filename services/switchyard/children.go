package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// programFunc makes the command of this program with arguments; tests have their own.
type programFunc func(context.Context, ...string) *exec.Cmd

// thisProgram runs the file that this process runs.
func thisProgram() (programFunc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	return func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, self, args...) }, nil
}

// child is a process that runs this program. On Linux it ends with this process however that ends.
type child struct {
	cmd   *exec.Cmd
	said  tail
	ended chan struct{}
	err   error // why it has ended; valid after ended
}

// startChild starts one, which SIGTERM ends when ctx does, and SIGKILL if that takes too long. What
// it prints goes to out, if there is one.
func startChild(ctx context.Context, program programFunc, out io.Writer, args ...string) (*child, error) {
	if program == nil {
		var err error
		if program, err = thisProgram(); err != nil {
			return nil, err
		}
	}
	c := &child{cmd: program(ctx, args...), ended: make(chan struct{})}
	c.cmd.Env = slices.DeleteFunc(c.cmd.Environ(), isSetting)
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = cluster.DrainTime
	c.cmd.Stdout, c.cmd.Stderr = out, &c.said
	endWithParent(c.cmd)
	started := make(chan error)
	go func() {
		defer close(c.ended)
		runtime.LockOSThread() // Linux ends the child when the thread that made it ends
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	return c, nil
}

// isSetting says whether a variable sets a flag: a child has all of its flags as arguments. Those of kernels are
// of the machine.
func isSetting(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, variables) && !strings.HasPrefix(name, "SWITCHYARD_KERNEL") && !slices.Contains(otherVariables, name)
}

// stopAll asks all to end, and waits for that; one that takes too long is killed.
func stopAll(all []*child) {
	for _, c := range all {
		_ = c.cmd.Cancel() // one that has ended needs no signal
	}
	late := time.After(cluster.DrainTime)
	for _, c := range all {
		select {
		case <-c.ended:
		case <-late:
			_ = c.cmd.Process.Kill()
			<-c.ended
			late = time.After(0)
		}
	}
}

// failure is why it has ended, with what it said last.
func (c *child) failure() error {
	if said := strings.TrimSpace(c.said.String()); said != "" {
		return fmt.Errorf("%w: %s", errors.Join(c.err), said)
	}
	return c.err
}

// tail keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// mostSaid bytes of it.
const mostSaid = 2048

// Write takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-mostSaid):]
	return len(p), nil
}

// String is what was written last.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
