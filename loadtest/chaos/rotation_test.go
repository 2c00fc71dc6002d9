package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

const (
	// rotations are how often all keys are made anew under load.
	rotations = 3
	// askers ask one request after the other meanwhile.
	askers = 4
)

// TestRotation serves with what `switchyard auth init` makes, over TLS, and makes all
// keys anew while answers stream: each is whole, and old keys are refused.
func TestRotation(t *testing.T) {
	wantedMinutes(t)
	k := newKeyed(t)
	old := filepath.Join(t.TempDir(), "old.creds")
	answers := k.whileAsking(func() {
		for i := range rotations {
			k.copyCreds(old)
			k.program("switchyard", "auth", "rotate", k.dir)
			k.program("nats-server", "--signal", "reload="+k.pidFile())
			k.complete(t, k.login(), fmt.Sprintf("new-key-%d", i), 60)
		}
	})
	t.Logf("%d answers beside %d rotations", answers, rotations)
	nc, err := nats.Connect(k.url, k.options(old)...)
	if err == nil {
		nc.Close()
	}
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a key that was revoked: %v, want %v", err, nats.ErrAuthorization)
	}
	k.checkLogs()
}

// keyed is a server and services with credentials of a folder.
type keyed struct {
	guarded

	dir string
}

func newKeyed(t *testing.T) *keyed {
	t.Helper()
	addr := testkit.FreeAddr(t)
	k := &keyed{
		guarded: guarded{t: t, programs: fleet.Build(t), url: "tls://" + addr, procs: map[string]*fleet.Process{}},
		dir:     filepath.Join(t.TempDir(), "auth"),
	}
	k.program("switchyard", "auth", "init", k.dir)
	fleet.Launch(t, "nats-server", filepath.Join(k.programs, "nats-server"), "-c", k.configureServer(addr)).Await(t, "Server is ready")
	k.launchServices(func(user string) []string {
		return []string{"--nats", k.url, "--creds", k.creds(user), "--tls-ca", k.ca()}
	}, "--edge-creds", k.creds(edge))
	return k
}

// configureServer has the server listen at addr, and say which process it is.
func (k *keyed) configureServer(addr string) (path string) {
	k.t.Helper()
	path = filepath.Join(k.dir, "server", "nats.conf")
	text, err := os.ReadFile(path)
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(path, strings.Replace(string(text), "listen: 0.0.0.0:4222", fmt.Sprintf("listen: %s\npid_file: %q", addr, k.pidFile()), 1))
	return path
}

func (k *keyed) pidFile() string          { return filepath.Join(k.dir, "server", "pid") }
func (k *keyed) ca() string               { return filepath.Join(k.dir, "ca.pem") }
func (k *keyed) creds(user string) string { return filepath.Join(k.dir, "creds", user+".creds") }

// program runs one of the programs to its end.
func (k *keyed) program(name string, args ...string) {
	k.t.Helper()
	if out, err := exec.CommandContext(k.t.Context(), filepath.Join(k.programs, name), args...).CombinedOutput(); err != nil {
		k.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func (k *keyed) options(creds string) []nats.Option {
	return []nats.Option{
		nats.UserCredentials(creds), nats.RootCAs(k.ca()), nats.CustomInboxPrefix("_INBOX." + producer),
		nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// login connects as the producer, with the newest key.
func (k *keyed) login() *nats.Conn {
	k.t.Helper()
	nc, err := nats.Connect(k.url, k.options(k.creds(producer))...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(nc.Close)
	return nc
}

func (k *keyed) copyCreds(to string) {
	k.t.Helper()
	data, err := os.ReadFile(k.creds(producer))
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(to, string(data))
}

// whileAsking counts the answers that begin until trouble returns; each has to be whole.
func (k *keyed) whileAsking(trouble func()) int64 {
	k.t.Helper()
	ctx, stop := context.WithCancel(k.t.Context())
	var asking sync.WaitGroup
	var answers atomic.Int64
	defer asking.Wait()
	defer stop()
	for worker := range askers {
		nc := k.login()
		asking.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				k.complete(k.t, nc, fmt.Sprintf("asker-%d-%d", worker, i), 60)
				answers.Add(1)
			}
		})
	}
	trouble()
	stop()
	asking.Wait()
	return answers.Load()
}
