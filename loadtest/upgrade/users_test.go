package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/chaos/asking"
	"github.com/switchyard/switchyard/loadtest/chaos/workload"
	"github.com/switchyard/switchyard/loadtest/fleet"
)

// TestUpgradeUsers upgrades services that are users of a folder of before producers had
// accounts, as docs/operations/users.md says: `auth update`, services of this version beside those
// of before, which then go, new credentials for producers, and the end of the old ones. Each
// request ends in its whole answer, whatever credentials its producer has by then.
func TestUpgradeUsers(t *testing.T) {
	wantsUpgrade(t)
	u := newUsers(t, fleet.Build(t))
	before := u.dial("before", u.copyOf("producer"))
	u.under(before, func() {
		u.run(u.new, "auth", "update", u.dir)
		u.reload()
		u.progress(before)
		before.Again(t.Context()) // while somebody hears its replays
		u.replace()
		u.progress(before)
	})
	judge(t, before)
	after := u.dial("after", u.creds("producer"))
	u.under(after, func() {
		u.run(u.new, "auth", "update", u.dir, "--revoke-moved")
		u.reload()
		u.progress(after)
	})
	after.Again(t.Context())
	judge(t, after)
	if _, err := nats.Connect(u.url, u.login(u.copied)...); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("credentials of before the move: %v, want %v", err, nats.ErrAuthorization)
	}
	u.checkLogs()
}

// everyKind are all services.
var everyKind = slices.Concat(fleet.Kinds, fleet.Loop)

// users is a server and services with credentials of a folder.
type users struct {
	t        *testing.T
	old, new string // folders of programs
	dir, url string
	copied   string // the producer's credentials of before
	server   *fleet.Process
	services map[string]*fleet.Process
}

func newUsers(t *testing.T, programs string) *users {
	t.Helper()
	addr := testkit.FreeAddr(t)
	u := &users{
		t: t, old: fleet.BuildAt(t, programs, oldest), new: programs, dir: filepath.Join(t.TempDir(), "auth"), url: "tls://" + addr,
		services: map[string]*fleet.Process{},
	}
	u.run(u.old, "auth", "init", u.dir)
	u.server = fleet.Launch(t, "nats-server", filepath.Join(programs, "nats-server"), "-c", u.configure(addr))
	u.server.Await(t, "Server is ready")
	for _, kind := range everyKind {
		u.launch(u.old, kind, u.flagsOf(kind)...)
	}
	for _, p := range u.services {
		p.Await(t, "ready")
	}
	return u
}

// configure has the server listen at addr.
func (u *users) configure(addr string) (path string) {
	u.t.Helper()
	path = filepath.Join(u.dir, "server", "nats.conf")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "0.0.0.0:4222", addr, 1)), 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return path
}

func (u *users) creds(user string) string { return filepath.Join(u.dir, "creds", user+".creds") }

// run runs a command of switchyard to its end.
func (u *users) run(programs string, args ...string) {
	u.t.Helper()
	if out, err := exec.CommandContext(u.t.Context(), filepath.Join(programs, "switchyard"), args...).CombinedOutput(); err != nil {
		u.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// reload has the server read its settings.
func (u *users) reload() {
	u.t.Helper()
	if out, err := exec.CommandContext(u.t.Context(), filepath.Join(u.new, "nats-server"), "--signal", "reload="+strconv.Itoa(u.server.PID())).CombinedOutput(); err != nil {
		u.t.Fatalf("%v\n%s", err, out)
	}
}

func (u *users) flags(user string) []string {
	return []string{"--nats", u.url, "--creds", u.creds(user), "--tls-ca", filepath.Join(u.dir, "ca.pem")}
}

// flagsOf names a Kafka that is not there to a scaler, which plans by the hosts then.
func (u *users) flagsOf(kind string) []string {
	if kind == "scaler" {
		return []string{"--kafka", testkit.FreeAddr(u.t)}
	}
	return nil
}

func (u *users) launch(programs, kind string, flags ...string) *fleet.Process {
	u.t.Helper()
	p := fleet.Launch(u.t, kind, filepath.Join(programs, "switchyard"), append(append([]string{kind}, u.flags(kind)...), flags...)...)
	u.services[kind] = p
	return p
}

// replace has services of this version come beside those of before, which go then.
func (u *users) replace() {
	u.t.Helper()
	u.run(u.new, append([]string{"setup"}, u.flags("setup")...)...)
	for _, kind := range everyKind {
		before, flags := u.services[kind], u.flagsOf(kind)
		if kind == "tokenizer" {
			flags = append(flags, "--edge-creds", u.creds("tokenizer-edge"))
		}
		u.launch(u.new, kind, flags...).Await(u.t, "ready")
		before.Drain(u.t)
		u.lacks(kind, before)
	}
}

// copyOf keeps a user's credentials: auth update writes others in their place.
func (u *users) copyOf(user string) string {
	u.t.Helper()
	data, err := os.ReadFile(u.creds(user))
	u.copied = filepath.Join(u.t.TempDir(), user+".creds")
	if err == nil {
		err = os.WriteFile(u.copied, data, 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return u.copied
}

func (u *users) login(creds string) []nats.Option {
	return []nats.Option{
		nats.UserCredentials(creds), nats.RootCAs(filepath.Join(u.dir, "ca.pem")), nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}
}

// dial connects as the producer, and makes the answers that all others must equal.
func (u *users) dial(run, creds string) *asking.Load {
	u.t.Helper()
	l, err := asking.Dial(asking.Settings{
		URL: u.url, Login: u.login(creds), Prefix: "switchyard", Model: "demo", Inbox: "_INBOX.producer", Run: fmt.Sprintf("%s-%d", run, time.Now().UnixMilli()),
		Workers: workers, Workload: workload.New(1, variants), Hang: lostAfter, Plain: true, Mixed: true,
	})
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(l.Close)
	if err := l.Reference(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	return l
}

// under has requests run until the change is over, and waits for their ends.
func (u *users) under(l *asking.Load, change func()) {
	u.t.Helper()
	ctx, stop := context.WithCancel(u.t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer stop()
	asking.Go(func() { l.Run(ctx) })
	u.progress(l)
	change()
}

// progress waits until so many more requests have ended that each worker has sent one since.
func (u *users) progress(l *asking.Load) {
	u.t.Helper()
	progress(u.t, l, 2*workers)
}

// checkLogs wants every service to run, and none to have met a right that it lacks.
func (u *users) checkLogs() {
	u.t.Helper()
	for kind, p := range u.services {
		if p.Ended() {
			u.t.Errorf("%s ended by itself:\n%s", kind, p.Tail())
		}
		u.lacks(kind, p)
	}
}

func (u *users) lacks(kind string, p *fleet.Process) {
	u.t.Helper()
	if line := p.Find("permissions violation"); line != "" {
		u.t.Errorf("%s lacks a right: %s", kind, line)
	}
}
