package chaos

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	natsServer = "github.com/nats-io/nats-server/v2"
	switchyard = "github.com/switchyard/switchyard/services/switchyard"
	// startTime and endTime bound a program's start and its end on a busy machine.
	startTime = 60 * time.Second
	endTime   = 30 * time.Second
	// keptLines of a program's log are shown when the test fails.
	keptLines = 40
)

// kinds are the services, in the order of starting.
var kinds = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// fleet is a NATS server and the services' processes.
type fleet struct {
	t        *testing.T
	programs string // the folder that they are in
	hops     string // --hops of every service
	store    string
	addr     string
	nats     *process
	procs    map[string][]*process
}

// buildPrograms returns the folder of the programs.
func buildPrograms(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range map[string]string{"nats-server": natsServer, "switchyard": switchyard} {
		build := exec.Command("go", "build", "-o", filepath.Join(dir, name), path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// newFleet starts the server.
func newFleet(t *testing.T, programs, hops string) *fleet {
	t.Helper()
	f := &fleet{t: t, programs: programs, hops: hops, store: t.TempDir(), addr: freeAddr(t), procs: map[string][]*process{}}
	f.startServer()
	return f
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // all that matters is its address
	return l.Addr().String()
}

func (f *fleet) url() string { return "nats://" + f.addr }

// startServer starts the NATS server, always with the same store and address.
func (f *fleet) startServer() {
	f.t.Helper()
	host, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.nats = launch(f.t, "nats-server", filepath.Join(f.programs, "nats-server"),
		"-a", host, "-p", port, "-js", "-sd", f.store)
	f.nats.await(f.t, "Server is ready")
}

// scale brings every kind to count processes; experts may be more.
func (f *fleet) scale(count, experts int) {
	f.t.Helper()
	var started []*process
	for _, kind := range kinds {
		want := count
		if kind == "expert" {
			want = experts
		}
		for len(f.procs[kind]) < want {
			started = append(started, f.add(kind))
		}
	}
	for _, p := range started {
		p.await(f.t, "ready")
	}
}

// add starts a process and does not wait until it is ready.
func (f *fleet) add(kind string) *process {
	f.t.Helper()
	p := launch(f.t, kind, filepath.Join(f.programs, "switchyard"), kind, "--nats", f.url(), "--hops", f.hops)
	f.procs[kind] = append(f.procs[kind], p)
	return p
}

// first is the process of a kind that has run longest.
func (f *fleet) first(kind string) *process { return f.procs[kind][0] }

// forget takes a process that has ended out.
func (f *fleet) forget(kind string, p *process) {
	f.procs[kind] = slices.DeleteFunc(f.procs[kind], func(o *process) bool { return o == p })
}

// checkAlive wants every process that nobody ended to run.
func (f *fleet) checkAlive() {
	f.t.Helper()
	for _, kind := range kinds {
		for _, p := range f.procs[kind] {
			select {
			case <-p.done:
				f.t.Errorf("%s ended by itself: %v\n%s", p.name, p.err, p.tail())
			default:
			}
		}
	}
}

// process is a running program.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; valid after done

	mu    sync.Mutex
	lines []string
	seen  chan struct{} // closed and replaced at each line
}

// launch starts a program that is killed when the test ends.
func launch(t *testing.T, name, program string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(program, args...), done: make(chan struct{}), seen: make(chan struct{})}
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
		p.kill()
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, p.tail())
		}
	})
	return p
}

func (p *process) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, line)
	close(p.seen)
	p.seen = make(chan struct{})
}

func (p *process) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-keptLines):], "\n")
}

// await waits for a line that ends with text.
func (p *process) await(t *testing.T, text string) {
	t.Helper()
	limit := time.After(startTime)
	for {
		p.mu.Lock()
		found := slices.ContainsFunc(p.lines, func(l string) bool { return strings.HasSuffix(l, text) })
		seen := p.seen
		p.mu.Unlock()
		if found {
			return
		}
		select {
		case <-seen:
		case <-p.done:
			t.Fatalf("%s ended (%v) before it said %q:\n%s", p.name, p.err, text, p.tail())
		case <-limit:
			t.Fatalf("%s did not say %q:\n%s", p.name, text, p.tail())
		}
	}
}

// kill ends a program as kill -9 does, and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// hang stops a program where it is: it keeps its connections and what it has
// asked for, and answers nothing.
func (p *process) hang(t *testing.T) { p.signal(t, syscall.SIGSTOP) }

// wake lets a hung program go on.
func (p *process) wake(t *testing.T) { p.signal(t, syscall.SIGCONT) }

func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Errorf("sending %v to %s: %v", s, p.name, err)
	}
}

// drain asks a program to end and wants it to do so cleanly.
func (p *process) drain(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(endTime):
		t.Errorf("%s did not end on SIGTERM", p.name)
		p.kill()
	}
	if p.err != nil {
		t.Errorf("%s ended with %v:\n%s", p.name, p.err, p.tail())
	}
}
