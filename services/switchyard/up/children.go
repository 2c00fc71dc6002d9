package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// ProgramFunc makes the command of switchyard with arguments; tests have their own.
type ProgramFunc func(context.Context, ...string) *exec.Cmd

// product returns what runs switchyard, which is this program or beside it.
func product() (ProgramFunc, error) {
	path, err := cli.ProductPath()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, path, args...) }, nil
}

// Child is a process that runs switchyard. On Linux it ends with this process however that ends.
type Child struct {
	Cmd *exec.Cmd
	// Ended is closed when it has.
	Ended chan struct{}
	said  tail
	err   error // why it has ended; valid after Ended
}

// StartChild starts one, which SIGTERM ends when ctx does, and SIGKILL if that takes too long. What
// it prints goes to out, if there is one.
func StartChild(ctx context.Context, program ProgramFunc, out io.Writer, args ...string) (*Child, error) {
	if program == nil {
		var err error
		if program, err = product(); err != nil {
			return nil, err
		}
	}
	c := &Child{Cmd: program(ctx, args...), Ended: make(chan struct{})}
	c.Cmd.Env = slices.DeleteFunc(c.Cmd.Environ(), cli.IsSetting)
	c.Cmd.Cancel = func() error { return c.Cmd.Process.Signal(syscall.SIGTERM) }
	c.Cmd.WaitDelay = cluster.DrainTime
	c.Cmd.Stdout, c.Cmd.Stderr = out, &c.said
	endWithParent(c.Cmd)
	started := make(chan error)
	go func() {
		defer close(c.Ended)
		runtime.LockOSThread() // Linux ends the child when the thread that made it ends
		err := c.Cmd.Start()
		started <- err
		if err == nil {
			c.err = c.Cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	return c, nil
}

// StopAll asks all to end, and waits for that; one that takes too long is killed.
func StopAll(all []*Child) {
	for _, c := range all {
		_ = c.Cmd.Cancel() // one that has ended needs no signal
	}
	late := time.After(cluster.DrainTime)
	for _, c := range all {
		select {
		case <-c.Ended:
		case <-late:
			_ = c.Cmd.Process.Kill()
			<-c.Ended
			late = time.After(0)
		}
	}
}

// Failure returns why it has ended, with what it said last.
func (c *Child) Failure() error {
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

// String returns what was written last.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
