// Package fleet runs the services as processes of their own beside a real NATS
// server, or a cluster of them, for load tests: it starts, stops, kills and
// suspends them.
package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// The programs.
const (
	natsServer = "github.com/nats-io/nats-server/v2"
	switchyard = "github.com/switchyard/switchyard/services/switchyard"
	broker     = "github.com/switchyard/switchyard/pkg/transport/kafka/embedded/broker"
	engine     = "github.com/switchyard/switchyard/services/attention/engine"
)

// Kinds are the services, in the order of starting.
var Kinds = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// Loop are the services of the control loop, of which none need be there.
var Loop = []string{"predictor", "scaler"}

// Deployed is what deploy/nats.conf says beside its JetStream: a cluster under
// failures needs it.
const Deployed = "ping_interval: \"2s\"\nping_max: 2\nno_fast_producer_stall: true\n"

// Settings are what a fleet runs with.
type Settings struct {
	Programs string
	// Flags are every service's beside --nats.
	Flags []string
	// Servers is how many NATS servers there are, 1 unless it is set; several
	// are a cluster.
	Servers int
	// RouteVia returns the address at which one server of a cluster looks for
	// another one, which listens at addr; nil is addr itself.
	RouteVia func(from, to int, addr string) string
	// Store returns the folder of a server's store; nil is one of its own.
	Store func(server int) string
	// ServerConfig is what else the servers' configuration says, JetStream what
	// else its block of JetStream says.
	ServerConfig, JetStream string
}

// Fleet is the NATS servers and the services' processes.
type Fleet struct {
	T       *testing.T
	Servers []*Server

	settings Settings
	procs    map[string][]*Process
}

// shared has the programs of all tests of a process; empty: each test builds its own.
var shared string

// Main runs a package's tests, which share what the first Build builds.
func Main(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "fleet-"); err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(shared) }() // it is a temporary one
	m.Run()
}

var once sync.Once

// Build builds the programs and returns their folder. Where SWITCHYARD_PROGRAMS names a folder, it has
// them already, as on a machine without a compiler.
func Build(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("SWITCHYARD_PROGRAMS"); dir != "" {
		return dir
	}
	if shared == "" {
		return build(t, t.TempDir())
	}
	once.Do(func() { build(t, shared) })
	if _, err := os.Stat(filepath.Join(shared, "switchyard")); err != nil {
		t.Fatalf("another test could not build the programs: %v", err)
	}
	return shared
}

// build builds them in one go, and without what debuggers need: linking is most of it.
func build(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	args := slices.Concat([]string{"build", "-ldflags", "-s -w", "-o", dir + string(filepath.Separator)}, flags, []string{natsServer, switchyard, broker})
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the programs: %v\n%s", err, out)
	}
	return dir
}

// New starts the servers, and no service yet.
func New(t *testing.T, s Settings) *Fleet {
	t.Helper()
	return &Fleet{T: t, Servers: newServers(t, s), settings: s, procs: map[string][]*Process{}}
}

// URL lists all servers.
func (f *Fleet) URL() string {
	urls := make([]string, len(f.Servers))
	for i, s := range f.Servers {
		urls[i] = "nats://" + s.Addr
	}
	return strings.Join(urls, ",")
}

// Use takes the programs of another folder, with other flags, for the processes that are
// started from now on.
func (f *Fleet) Use(programs string, flags ...string) {
	f.settings.Programs, f.settings.Flags = programs, flags
}

// All are the processes of a kind.
func (f *Fleet) All(kind string) []*Process { return slices.Clone(f.procs[kind]) }

// Drain ends the first process of a kind as SIGTERM does and takes it out.
func (f *Fleet) Drain(kind string) {
	f.T.Helper()
	p := f.First(kind)
	p.Drain(f.T)
	f.Forget(kind, p)
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
	p := f.Run(kind, f.URL(), nil, flags...)
	f.procs[kind] = append(f.procs[kind], p)
	return p
}

// Run starts a process that reaches the servers at url; its clock may be nil.
// Nobody counts it: its end is the caller's matter. It may be called from several
// goroutines.
func (f *Fleet) Run(kind, url string, c *Clock, flags ...string) *Process {
	f.T.Helper()
	args := slices.Concat([]string{kind, "--nats", url}, f.settings.Flags, flags)
	return launch(f.T, kind, filepath.Join(f.settings.Programs, "switchyard"), c, args...)
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

// Replace starts another process for each of a kind that has ended by itself, and says how
// many those were.
func (f *Fleet) Replace(kind string) (ended int) {
	f.T.Helper()
	for _, p := range slices.Clone(f.procs[kind]) {
		if p.Ended() {
			f.Forget(kind, p)
			f.Add(kind)
			ended++
		}
	}
	return ended
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
