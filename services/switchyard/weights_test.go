package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// An operator puts models into the object store, sees and removes them.
func TestWeights(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	steps := []struct {
		name string
		args []string
		code int
		want string // on stdout for code 0, else on stderr
	}{
		{"nothing yet", []string{"ls", "--json"}, 0, ""},
		{"nothing to serve", []string{"gate", "--model", "nats://tiny"}, 2, "object manifest of model tiny: no whole model of that name is in the object store"},
		{"push", []string{"push", goldens.Dir("mixtral"), "--name", "tiny"}, 0, "serve it with --model nats://tiny"},
		{"again", []string{"push", goldens.Dir("mixtral"), "--name", "tiny", "--json"}, 0, `"sent_bytes":0`},
		{"another", []string{"push", goldens.Dir("qwen2_moe"), "--name", "tiny"}, 1, "another model of that name"},
		{"under its own name", []string{"push", goldens.Dir("qwen2_moe")}, 0, "qwen2_moe: "},
		{"list", []string{"ls"}, 0, "tiny       "},
		{"remove", []string{"rm", "tiny"}, 0, ""},
		{"remove what is no name", []string{"rm", "qwen2.moe"}, 2, "is no name of a model"},
		{"push under what is no name", []string{"push", goldens.Dir("mixtral"), "--name", "a.b"}, 2, "--name: \"a.b\" is no name of a model"},
		{"push under a long name", []string{"push", goldens.Dir("mixtral"), "--name", strings.Repeat("x", 300)}, 2, "use 1 to 64"},
		{"removed before", []string{"rm", "tiny"}, 1, "the object store has no model tiny"},
		{"no folder", []string{"push", "/nonexistent"}, 2, "opening model /nonexistent"},
		{"no server", []string{"push", goldens.Dir("mixtral"), "--nats", "nats://127.0.0.1:1", "--connect-timeout", "200ms"}, 3, "no connection"},
		{"no name", []string{"gate", "--model", "nats://a.b"}, 2, "is nats://NAME"},
		{"no folder for up", []string{"up", "--model", "nats://tiny"}, 2, "give a directory"},
	}
	for _, s := range steps {
		args := append([]string{"--nats", server.URL()}, s.args...)
		if s.args[0] != "gate" && s.args[0] != "up" {
			args = append([]string{"--nats", server.URL(), "weights"}, s.args...)
		}
		got := invoke("", args...)
		text := got.Err
		if s.code == 0 {
			text = got.Out
		}
		if got.Code != s.code || !strings.Contains(text, s.want) {
			t.Errorf("%s: got %+v, want code %d and %q", s.name, got, s.code, s.want)
		}
	}
	var listed struct {
		Name  string
		Whole bool
	}
	if out := invoke("", "weights", "ls", "--json", "--nats", server.URL()).Out; json.Unmarshal([]byte(out), &listed) != nil || listed.Name != "qwen2_moe" || !listed.Whole {
		t.Errorf("%q is listed", out)
	}
}

// A server without JetStream, or whose account has none, ends every command that needs
// it, with what to do.
func TestWithoutJetStream(t *testing.T) {
	t.Parallel()
	account := server.NewAccount("a")
	for name, options := range map[string]server.Options{
		"server": {},
		"account": {
			JetStream: true, StoreDir: t.TempDir(), Accounts: []*server.Account{account},
			Users: []*server.User{{Username: "u", Password: "p", Account: account}}, NoAuthUser: "u",
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := startNATS(t, &options).ClientURL()
			for _, args := range testkit.Some([][]string{
				{"weights", "push", goldens.Dir("mixtral"), "--connect-timeout", "200ms"}, // these wait for JetStream
				{"weights", "rm", "tiny", "--connect-timeout", "200ms"},
				{"weights", "ls"},
				{"plan", "get"},
				{"plan", "watch"},
				{"dlq", "ls"},
				{"dlq", "drop", "--all"},
				{"top", "--once"},
			}) {
				got := invokePatiently(t, append(args, "--nats", url)...)
				if got.Code != cli.ExitFailed || !strings.Contains(got.Err, "has the server JetStream, and the account? Start it with nats-server -js") {
					t.Errorf("%v: %+v", args, got)
				}
			}
		})
	}
}

// A server that goes away in the middle is told of once.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	address := testkit.FreeAddr(t)
	server := startServer(t, t.TempDir(), address)
	e := &cli.Env{Globals: cli.Globals{NATS: "nats://" + address}, Stdio: cli.Stdio{Out: io.Discard, Err: io.Discard}, Log: slog.New(slog.DiscardHandler), Waits: patient}
	err := e.WithStore(t.Context(), "push", cli.ConnectFlags{ConnectTimeout: 100 * time.Millisecond}, func(ctx context.Context, _ *bus.Conn) error {
		server.Shutdown()
		<-ctx.Done()
		return fmt.Errorf("%w; what was sent is kept", context.Cause(ctx))
	})
	if cli.ExitCode(err) != cli.ExitNoServer || err.Error() != "no connection to NATS; what was sent is kept" {
		t.Errorf("code %d, %v", cli.ExitCode(err), err)
	}
}
