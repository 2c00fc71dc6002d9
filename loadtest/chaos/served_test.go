package chaos

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/schedule"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// TestServed asks services that somebody else runs, at SWITCHYARD_CHAOS_NATS, and
// judges their answers in the same way. Faults are what the program does that
// SWITCHYARD_CHAOS_EXEC names: it gets the kind, the service, the replica and the
// seconds of each fault as its arguments, and returns when it has done it. Without
// one nothing goes wrong but what happens there by itself.
func TestServed(t *testing.T) {
	url := variable("NATS", "")
	if url == "" {
		t.Skip("set SWITCHYARD_CHAOS_NATS to the URL of a server with services")
	}
	settingsOf(t, served).judge(t, url, programOf(t))
}

// signalled are the kinds that a program can do with signals to processes alone.
var signalled = []schedule.Kind{schedule.Kill, schedule.Hang, schedule.Drain, schedule.Storm}

// programOf is the program that does faults; "" without one.
func programOf(t *testing.T) string {
	t.Helper()
	program := variable("EXEC", "")
	if program == "" {
		for _, name := range []string{"SCHEDULE", "KINDS"} {
			if variable(name, "") != "" {
				t.Fatalf("SWITCHYARD_CHAOS_%s says what goes wrong, and SWITCHYARD_CHAOS_EXEC names no program that does it", name)
			}
		}
		return ""
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("SWITCHYARD_CHAOS_EXEC is %q, and no program that can be run: %v", program, err)
	}
	return path
}

// loginOf is what a server wants to see that does not let everybody in.
func loginOf() (login []nats.Option) {
	if file := variable("CREDS", ""); file != "" {
		login = append(login, nats.UserCredentials(file))
	}
	if file := variable("TLS_CA", ""); file != "" {
		login = append(login, nats.RootCAs(file))
	}
	return login
}

// judge asks the services at a URL while a program does faults.
func (c config) judge(t *testing.T, url, program string) {
	t.Helper()
	l := dial(t, c, url)
	if err := l.Reference(t.Context()); err != nil {
		t.Fatalf("the reference run: %v", err)
	}
	r := &Run{Title: served}
	whileAsking(t, l, func() {
		if program == "" {
			time.Sleep(c.Length)
		} else {
			r.Hits, r.Problems = c.strike(t, l, program)
		}
	})
	l.Again(t.Context())
	r.Load = l.Result()
	r.Attribute()
	c.check(t, r, ByService)
}

// strike has the program do a schedule's faults, one after the other.
func (c config) strike(t *testing.T, l *asking.Load, program string) (hits []Hit, problems []string) {
	t.Helper()
	plan, began := c.plan(t), l.Now()
	for i, f := range plan {
		time.Sleep(f.At - (l.Now() - began))
		if c.file == "" && l.Now()-began > c.Length {
			t.Logf("%d of %d faults are left out: those before them took the program longer than there was time", len(plan)-i, len(plan))
			break
		}
		hit := Hit{Fault: f, Began: l.Now()}
		if err := do(t, program, f); err != nil {
			problems = append(problems, err.Error())
		}
		hit.Back = l.Now()
		hits = append(hits, hit)
	}
	return hits, problems
}

// faultWithin is how much longer than the fault the program may take.
const faultWithin = 2 * time.Minute

func do(t *testing.T, program string, f schedule.Fault) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), f.For+faultWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, f.Arguments()...)
	cmd.WaitDelay = time.Second // what it has started may hold its output
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %s: %w: %s", f, program, err, out)
	}
	return nil
}

// TestServedProcesses runs the services as docs/chaos.md has a user run them, with the
// program for processes that lies in deploy/faults.
func TestServedProcesses(t *testing.T) {
	wantedMinutes(t)
	programs, program := fleet.Build(t), "../../deploy/faults/processes"
	host, port, err := net.SplitHostPort(testkit.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"RUN": t.TempDir(), "PORT": port, "SWITCHYARD": filepath.Join(programs, "switchyard"), "NATS_SERVER": filepath.Join(programs, "nats-server"),
		"SWITCHYARD_CHAOS_KINDS": "", "SWITCHYARD_CHAOS_SCHEDULE": "", "SWITCHYARD_CHAOS_SHRINK": "0", // of the other tests
	} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() { runProgram(context.Background(), t, program, "down") })
	runProgram(t.Context(), t, program, "up")
	c := settingsOf(t, served)
	c.Length = servedFor
	c.judge(t, "nats://"+net.JoinHostPort(host, port), program)
}

// servedFor is long enough for some faults of several kinds.
const servedFor = 30 * time.Second

func runProgram(ctx context.Context, t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
}
