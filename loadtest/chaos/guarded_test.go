package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// guarded is a server with the users of deploy/permissions.conf, and a process
// of each service.
type guarded struct {
	t        *testing.T
	programs string // the folder
	url      string
	procs    map[string]*fleet.Process
	js       jetstream.JetStream // of an administrator, to see what was harmed
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	addr, programs := testkit.FreeAddr(t), fleet.Build(t)
	g := &guarded{t: t, programs: programs, url: "nats://" + addr, procs: map[string]*fleet.Process{}}
	server := fleet.Launch(t, "nats-server", filepath.Join(programs, "nats-server"), "-c", g.configure(addr))
	server.Await(t, "Server is ready")
	g.launchServices(func(user string) []string { return []string{"--nats", user} }, "--edge-nats", edge)
	js, err := jetstream.New(g.user("admin"))
	if err != nil {
		t.Fatal(err)
	}
	g.js = js
	return g
}

// launchServices starts a process of each service, and waits until it is ready. Streams are made
// by setup, and made again when a server has lost them.
func (g *guarded) launchServices(login func(user string) (flags []string), atEdge ...string) {
	g.t.Helper()
	fleet.Launch(g.t, maker, filepath.Join(g.programs, "switchyard"), append([]string{"setup", "--keep"}, login(maker)...)...)
	for _, kind := range kinds {
		flags := append([]string{kind}, login(kind)...)
		if kind == "tokenizer" {
			flags = append(flags, atEdge...)
		}
		if kind == "scaler" { // which plans by the hosts while there is no Kafka
			flags = append(flags, "--kafka", testkit.FreeAddr(g.t))
		}
		g.procs[kind] = fleet.Launch(g.t, kind, filepath.Join(g.programs, "switchyard"), flags...)
	}
	for _, kind := range kinds {
		g.procs[kind].Await(g.t, "ready")
	}
}

// passwords are the variables from which the server has its users' passwords.
var passwords = regexp.MustCompile(`\$([A-Z_]+_PASSWORD)`)

// configure writes the server's settings, with an administrator of each account beside the
// users of the file, and each service's NATS context with inboxes of its own.
func (g *guarded) configure(addr string) (path string) {
	g.t.Helper()
	text, err := os.ReadFile(permissions)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, user := range passwords.FindAllStringSubmatch(string(text), -1) {
		g.t.Setenv(user[1], password)
	}
	dir := g.t.TempDir()
	settings := strings.NewReplacer("port: 4222", "listen: "+addr, "/data", filepath.Join(dir, "store")).Replace(string(text))
	for _, a := range []string{"switchyard", "edge", "producers", "producers-acme"} {
		account, rest, _ := strings.Cut(settings, "  "+a+" {\n")
		settings = account + "  " + a + " {\n" + strings.Replace(rest, "users = [", "users = [ {user: "+adminOf(a)+", password: "+password+"}", 1)
	}
	path = filepath.Join(dir, "nats.conf")
	g.write(path, settings)
	g.t.Setenv("XDG_CONFIG_HOME", dir)
	for _, kind := range append(slices.Clone(kinds), viewer, operator, maker, edge, gateway) {
		g.write(filepath.Join(dir, "nats", "context", kind+".json"), fmt.Sprintf(
			`{"url": %q, "user": %q, "password": %q, "inbox_prefix": "_INBOX_%s"}`, g.url, kind, password, kind))
	}
	return path
}

// adminOf may do everything in an account.
func adminOf(account string) string {
	if account == "switchyard" {
		return "admin"
	}
	return "admin-" + account
}

func (g *guarded) write(path, text string) {
	g.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// user connects as one of the file's users.
func (g *guarded) user(name string, opts ...nats.Option) *nats.Conn {
	g.t.Helper()
	nc, err := nats.Connect(g.url, append(opts, nats.Timeout(testkit.Patience), nats.UserInfo(name, password))...)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(nc.Close)
	return nc
}

func (g *guarded) producer(name string) *nats.Conn {
	return g.user(name, nats.CustomInboxPrefix("_INBOX."+name), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// wholeWithin is when an answer counts as never coming, also on a machine that does
// little else than storing what somebody floods it with.
const wholeWithin = 5 * time.Minute

// complete wants the whole answer to a prompt.
func (g *guarded) complete(t *testing.T, nc *nats.Conn, id string, tokens int32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wholeWithin)
	defer cancel()
	stream, err := client.New(nc, client.Settings{}).Prompt(ctx, &pb.Prompt{Text: texts[0], RequestId: id, MaxTokens: &tokens, IgnoreEos: true})
	if err != nil {
		t.Error(err)
		return
	}
	seen := 0
	for chunk, err := range stream.Chunks() {
		if err = errors.Join(err, client.Failure(chunk)); err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		seen += len(chunk.TokenIds)
	}
	if seen != int(tokens) {
		t.Errorf("%s: %d tokens of %d", id, seen, tokens)
	}
}

// checkLogs wants every service to run, and none to have met a right that it lacks.
func (g *guarded) checkLogs() {
	g.t.Helper()
	for _, kind := range kinds {
		p := g.procs[kind]
		if p.Ended() {
			g.t.Errorf("%s ended by itself", kind)
		}
		if line := p.Find("permissions violation"); line != "" {
			g.t.Errorf("%s lacks a right: %s", kind, line)
		}
	}
}
