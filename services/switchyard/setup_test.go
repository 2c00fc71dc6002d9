package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// Setup makes what is missing, and says what it has changed, what differs and what to do.
func TestSetup(t *testing.T) {
	t.Parallel()
	f := testusers.Make(t, testusers.Demo())
	srv := testusers.Serve(t, testusers.Plain(t, f))
	for _, tc := range []struct {
		user, flags string
		code        int
		out, err    string
	}{
		{"gate", "--model demo=1", cli.ExitFailed, "", "run switchyard setup --keep as user setup"},
		{rights.Setup, "--model demo=1", cli.ExitDone, "switchyard_TOKENS_demo: made\n", ""},
		{rights.Setup, "--model demo=1", cli.ExitDone, "13 streams: 0 made, 0 changed, 0 differ\n", ""},
		{rights.Setup, "--model demo=1 --log-age 3h", cli.ExitDone, "switchyard_TOKENS_demo: changed maximum age 2h0m0s to 3h0m0s\n", ""},
		{rights.Setup, "--model demo=1", cli.ExitFailed, "maximum age 3h0m0s where 2h0m0s is wanted: switchyard setup --change switchyard_TOKENS_demo\n", ""},
		{rights.Setup, "--model demo=1 --json", cli.ExitFailed, `"state":"differs","differences":[{"field":"maximum age","have":"3h0m0s","want":"2h0m0s","mended":false,"command":"switchyard setup --change switchyard_TOKENS_demo"}]}`, ""},
		{rights.Setup, "--model demo=1 --change switchyard_TOKENS_demo", cli.ExitDone, "1 changed", ""},
		{rights.Setup, "--model demo=1 --hops acked", cli.ExitFailed, "switchyard setup --remake tensors", ""},
		{rights.Setup, "--model demo=1 --hops acked --remake tensors", cli.ExitDone, "switchyard_HIDDEN_demo: made\n", ""},
		{rights.Setup, "--model demo=1 --hops acked", cli.ExitDone, "17 streams: 0 made, 0 changed, 0 differ\n", ""},
		{rights.Setup, "--model demo=1 --remake tensors", cli.ExitDone, "switchyard_BLOCK_demo: deleted\n13 streams: 2 made", ""},
		{rights.Setup, "--model demo=1 --hops core", cli.ExitDone, "11 streams: 0 made", ""},
		{rights.Setup, "--model other=1", cli.ExitFailed, "", "permissions violation"},
		{rights.Setup, "--model demo=1 --change switchyard_TOKENS_other", cli.ExitUsage, "", "no stream of demo"},
		{rights.Setup, "--model demo=1 --remake switchyard_HOST_demo", cli.ExitUsage, "", "has with other --hops alone: --remake tensors deletes it"},
		{rights.Setup, "--model demo=1,b=2 --name c", cli.ExitUsage, "", "--name"},
		{rights.Setup, "--model nowhere", cli.ExitUsage, "", "neither demo"},
		{rights.Setup, "--log-age 1s", cli.ExitUsage, "", "--log-age"},
	} {
		args := append([]string{"setup", "--nats", srv.URL(), "--creds", f.Creds(tc.user)}, strings.Fields(tc.flags)...)
		if strings.Contains(tc.err, "permissions violation") || tc.user != rights.Setup { // it waits for an answer in vain
			args = append(args, "--connect-timeout", "5s")
		}
		if got := invokePatiently(t, args...); got.Code != tc.code || !strings.Contains(got.Out, tc.out) || !strings.Contains(got.Err, tc.err) {
			t.Errorf("%s %s: %+v", tc.user, tc.flags, got)
		}
	}
	if got := invoke("", "setup", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "100ms"); got.Code != cli.ExitNoServer {
		t.Errorf("without a server: %+v", got)
	}
}

// With --keep it goes on until a signal, which is a success.
func TestSetupKeeps(t *testing.T) {
	t.Parallel()
	f := testusers.Make(t, testusers.Demo())
	srv := testusers.Serve(t, testusers.Plain(t, f))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said := &sharedText{}
	ended := make(chan int, 1)
	go func() {
		ended <- runUntil(ctx, []string{"setup", "--keep", "--model", "demo=1", "--nats", srv.URL(), "--creds", f.Creds(rights.Setup)}, cli.Stdio{In: strings.NewReader(""), Out: said, Err: said})
	}()
	testkit.Eventually(t, "it is ready", func() bool { return strings.Contains(said.String(), "ready\n") })
	stop()
	select {
	case code := <-ended:
		if code != cli.ExitDone {
			t.Errorf("exit code %d: %s", code, said)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("it does not end")
	}
}
