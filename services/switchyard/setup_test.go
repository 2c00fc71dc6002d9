package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/rights"
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
		{"gate", "--model demo=1", exitFailed, "", "run switchyard setup --keep as user setup"},
		{rights.Setup, "--model demo=1", exitDone, "switchyard_TOKENS_demo: made\n", ""},
		{rights.Setup, "--model demo=1", exitDone, "13 streams: 0 made, 0 changed, 0 differ\n", ""},
		{rights.Setup, "--model demo=1 --log-age 3h", exitDone, "switchyard_TOKENS_demo: changed maximum age 2h0m0s to 3h0m0s\n", ""},
		{rights.Setup, "--model demo=1", exitFailed, "maximum age 3h0m0s where 2h0m0s is wanted: switchyard setup --change switchyard_TOKENS_demo\n", ""},
		{rights.Setup, "--model demo=1 --json", exitFailed, `"state":"differs","differences":[{"field":"maximum age","have":"3h0m0s","want":"2h0m0s","mended":false,"command":"switchyard setup --change switchyard_TOKENS_demo"}]}`, ""},
		{rights.Setup, "--model demo=1 --change switchyard_TOKENS_demo", exitDone, "1 changed", ""},
		{rights.Setup, "--model demo=1 --hops acked", exitFailed, "switchyard setup --remake tensors", ""},
		{rights.Setup, "--model demo=1 --hops acked --remake tensors", exitDone, "switchyard_HIDDEN_demo: made\n", ""},
		{rights.Setup, "--model demo=1 --hops acked", exitDone, "17 streams: 0 made, 0 changed, 0 differ\n", ""},
		{rights.Setup, "--model demo=1 --remake tensors", exitDone, "switchyard_BLOCK_demo: deleted\n13 streams: 2 made", ""},
		{rights.Setup, "--model demo=1 --hops core", exitDone, "11 streams: 0 made", ""},
		{rights.Setup, "--model other=1", exitFailed, "", "permissions violation"},
		{rights.Setup, "--model demo=1 --change switchyard_TOKENS_other", exitUsage, "", "no stream of demo"},
		{rights.Setup, "--model demo=1 --remake switchyard_HOST_demo", exitUsage, "", "has with other --hops alone: --remake tensors deletes it"},
		{rights.Setup, "--model demo=1,b=2 --name c", exitUsage, "", "--name"},
		{rights.Setup, "--model nowhere", exitUsage, "", "neither demo"},
		{rights.Setup, "--log-age 1s", exitUsage, "", "--log-age"},
	} {
		args := append([]string{"setup", "--nats", srv.URL(), "--creds", f.Creds(tc.user)}, strings.Fields(tc.flags)...)
		if strings.Contains(tc.err, "permissions violation") || tc.user != rights.Setup { // it waits for an answer in vain
			args = append(args, "--connect-timeout", "5s")
		}
		if got := invokePatiently(t, args...); got.code != tc.code || !strings.Contains(got.out, tc.out) || !strings.Contains(got.err, tc.err) {
			t.Errorf("%s %s: %+v", tc.user, tc.flags, got)
		}
	}
	if got := invoke("", "setup", "--nats", "nats://127.0.0.1:1", "--connect-timeout", "100ms"); got.code != exitNoServer {
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
		ended <- runUntil(ctx, []string{"setup", "--keep", "--model", "demo=1", "--nats", srv.URL(), "--creds", f.Creds(rights.Setup)}, stdio{in: strings.NewReader(""), out: said, err: said})
	}()
	testkit.Eventually(t, "it is ready", func() bool { return strings.Contains(said.String(), "ready\n") })
	stop()
	select {
	case code := <-ended:
		if code != exitDone {
			t.Errorf("exit code %d: %s", code, said)
		}
	case <-time.After(testkit.Patience):
		t.Fatal("it does not end")
	}
}
