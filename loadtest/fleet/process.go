package fleet

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// startTime and endTime bound a program's start and its end on a busy machine.
	startTime = 60 * time.Second
	endTime   = 30 * time.Second
	// keptLines of a program's log are shown when the test fails.
	keptLines = 40
)

// Process is a running program.
type Process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; valid after done

	mu    sync.Mutex
	lines []string
	seen  chan struct{} // closed and replaced at each line
}

// Launch starts a program that is killed when the test ends.
func Launch(t *testing.T, name, program string, args ...string) *Process {
	t.Helper()
	return launch(t, name, program, nil, args...)
}

// LaunchIn is Launch with further variables in the environment, each as "NAME=value".
func LaunchIn(t *testing.T, env []string, name, program string, args ...string) *Process {
	t.Helper()
	return start(t, name, program, env, args...)
}

func launch(t *testing.T, name, program string, c *Clock, args ...string) *Process {
	t.Helper()
	return start(t, name, program, c.environment(), args...)
}

func start(t *testing.T, name, program string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{name: name, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...), done: make(chan struct{}), seen: make(chan struct{})}
	p.cmd.Env = append(environment(), env...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.name = fmt.Sprintf("%s %d", name, p.cmd.Process.Pid)
	go func() {
		defer close(p.done)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			p.note(scanner.Text())
		}
		p.err = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, p.Tail())
		}
	})
	return p
}

// loadTests begin the variables that start load tests.
var loadTests = []string{"SWITCHYARD_CHAOS", "SWITCHYARD_CLUSTER", "SWITCHYARD_DOOR", "SWITCHYARD_OVERLOAD", "SWITCHYARD_PAGES", "SWITCHYARD_PROGRAMS", "SWITCHYARD_SCALING", "SWITCHYARD_SOAK", "SWITCHYARD_UPGRADE"}

// environment is this process's without what is meant for load tests: services
// warn of variables that they do not know.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(loadTests, func(name string) bool { return strings.HasPrefix(v, name) })
	})
}

func (p *Process) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.seen)
	p.seen = make(chan struct{})
}

// PID is the program's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Tail is the last lines of the program's log.
func (p *Process) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-keptLines):], "\n")
}

// Find is the first line of the whole log that has a text, in whatever case; "" if none has.
func (p *Process) Find(text string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range p.lines {
		if strings.Contains(strings.ToLower(line), text) {
			return line
		}
	}
	return ""
}

// Ended reports whether the program runs no more.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Await waits for a line that ends with text.
func (p *Process) Await(t *testing.T, text string) {
	t.Helper()
	if err := p.Says(text); err != nil {
		t.Fatal(err)
	}
}

// Says waits for a line that ends with text, for any goroutine.
func (p *Process) Says(text string) error {
	limit := time.After(startTime)
	for {
		p.mu.Lock()
		found := slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasSuffix(l, text) })
		seen := p.seen
		p.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-seen:
		case <-p.done:
			return fmt.Errorf("%s ended (%w) before it said %q:\n%s", p.name, cmp.Or(p.err, errNone), text, p.Tail())
		case <-limit:
			return fmt.Errorf("%s did not say %q:\n%s", p.name, text, p.Tail())
		}
	}
}

// errNone stands for an end with exit code 0.
var errNone = errors.New("exit status 0")

// Kill ends a program as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Hang stops a program where it is: it keeps its connections and what it has
// asked for, and answers nothing.
func (p *Process) Hang(t *testing.T) { report(t, p.Suspend()) }

// Wake lets a hung program go on.
func (p *Process) Wake(t *testing.T) { report(t, p.Resume()) }

func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Suspend is Hang for any goroutine, and Resume is Wake.
func (p *Process) Suspend() error { return p.signal(syscall.SIGSTOP) }

// Resume lets a suspended program go on.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// Drain asks a program to end and wants it to do so cleanly.
func (p *Process) Drain(t *testing.T) {
	t.Helper()
	report(t, p.End())
}

// End asks a program to end; an error says that it did not do so cleanly, or had
// to be killed.
func (p *Process) End() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(endTime):
		p.Kill()
		return fmt.Errorf("%s did not end on SIGTERM within %v:\n%s", p.name, endTime, p.Tail())
	}
	if p.err != nil {
		return fmt.Errorf("%s ended with %w:\n%s", p.name, p.err, p.Tail())
	}
	return nil
}

// Slow lets a program run for one part in ten of the time, until stop is called: it
// answers, and takes ten times as long.
func (p *Process) Slow(t *testing.T) (stop func()) {
	t.Helper()
	const runs, rests = 4 * time.Millisecond, 36 * time.Millisecond
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && p.Suspend() == nil {
			time.Sleep(rests)
			_ = p.Resume() // it may have ended
			time.Sleep(runs)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
