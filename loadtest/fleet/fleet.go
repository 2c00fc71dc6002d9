// Package fleet runs the services as processes of their own beside a real NATS
// server, for load tests: it starts, stops, kills and suspends them.
package fleet

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// The programs.
const (
	natsServer = "github.com/nats-io/nats-server/v2"
	switchyard = "github.com/switchyard/switchyard/services/switchyard"
	broker     = "github.com/switchyard/switchyard/pkg/transport/kafka/embedded/broker"
)

// Kinds are the services, in the order of starting.
var Kinds = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// Loop are the services of the control loop, of which none need be there.
var Loop = []string{"predictor", "scaler"}

// Settings are what a fleet runs with.
type Settings struct {
	// Programs is the folder that Build returned.
	Programs string
	// Flags are every service's beside --nats.
	Flags []string
}

// Fleet is a NATS server and the services' processes.
type Fleet struct {
	T *testing.T
	// NATS is the server's process.
	NATS *Process

	settings Settings
	store    string
	addr     string
	procs    map[string][]*Process
}

// Build builds the programs and returns their folder.
func Build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, path := range map[string]string{"nats-server": natsServer, "switchyard": switchyard, "broker": broker} {
		build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name), path)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, out)
		}
	}
	return dir
}

// New starts the server, and no service yet.
func New(t *testing.T, s Settings) *Fleet {
	t.Helper()
	f := &Fleet{T: t, settings: s, store: t.TempDir(), addr: FreeAddr(t), procs: map[string][]*Process{}}
	f.StartServer()
	return f
}

// FreeAddr is an address that nobody listens on.
func FreeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // all that matters is its address
	return l.Addr().String()
}

// URL is the server's.
func (f *Fleet) URL() string { return "nats://" + f.addr }

// StartServer starts the NATS server, always with the same store and address.
func (f *Fleet) StartServer() {
	f.T.Helper()
	host, port, err := net.SplitHostPort(f.addr)
	if err != nil {
		f.T.Fatal(err)
	}
	f.NATS = Launch(f.T, "nats-server", filepath.Join(f.settings.Programs, "nats-server"),
		"-a", host, "-p", port, "-js", "-sd", f.store)
	f.NATS.Await(f.T, "Server is ready")
}

// Scale brings every kind to count processes; experts may be more. It waits
// until the new ones are ready.
func (f *Fleet) Scale(count, experts int) {
	f.T.Helper()
	for _, p := range f.Launch(count, experts) {
		p.Await(f.T, "ready")
	}
}

// Launch is Scale without waiting; it returns what it has started.
func (f *Fleet) Launch(count, experts int) (started []*Process) {
	f.T.Helper()
	for _, kind := range Kinds {
		want := count
		if kind == "expert" {
			want = experts
		}
		for len(f.procs[kind]) < want {
			started = append(started, f.Add(kind))
		}
	}
	return started
}

// Add starts a process, with flags of its own, and does not wait until it is ready.
func (f *Fleet) Add(kind string, flags ...string) *Process {
	f.T.Helper()
	args := slices.Concat([]string{kind, "--nats", f.URL()}, f.settings.Flags, flags)
	p := Launch(f.T, kind, filepath.Join(f.settings.Programs, "switchyard"), args...)
	f.procs[kind] = append(f.procs[kind], p)
	return p
}

// First is the process of a kind that has run longest.
func (f *Fleet) First(kind string) *Process { return f.procs[kind][0] }

// Count is how many processes of a kind there are.
func (f *Fleet) Count(kind string) int { return len(f.procs[kind]) }

// Kill ends the first process of a kind and takes it out.
func (f *Fleet) Kill(kind string) {
	p := f.First(kind)
	p.Kill()
	f.Forget(kind, p)
}

// Forget takes a process that has ended out.
func (f *Fleet) Forget(kind string, p *Process) {
	f.procs[kind] = slices.DeleteFunc(f.procs[kind], func(o *Process) bool { return o == p })
}

// Clear kills all services.
func (f *Fleet) Clear() {
	for kind := range f.procs {
		for len(f.procs[kind]) > 0 {
			f.Kill(kind)
		}
	}
}

// CheckAlive wants every process that nobody ended to run.
func (f *Fleet) CheckAlive() {
	f.T.Helper()
	for _, all := range f.procs {
		for _, p := range all {
			if p.Ended() {
				f.T.Errorf("%s ended by itself: %v\n%s", p.name, p.err, p.Tail())
			}
		}
	}
}
