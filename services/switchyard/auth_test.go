package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

func TestReadModel(t *testing.T) {
	t.Parallel()
	golden := goldens.Dir("deepseek_v2")
	dense := filepath.Join(t.TempDir(), "broken")
	if err := os.MkdirAll(dense, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text, name string
		layers     int
		problem    string
	}{
		{"demo", "demo", 8, ""},
		{"mine=demo", "mine", 8, ""},
		{"big=61", "big", 61, ""},
		{"d=" + golden, "d", -1, ""},
		{golden, "deepseek_v2", -1, ""},
		{golden + "/", "deepseek_v2", -1, ""},
		{"big=0", "", 0, "0 layers"},
		{"big=100000", "", 0, "100000 layers"},
		{"a b=3", "", 0, "letters, digits"},
		{"=3", "", 0, "letters, digits"},
		{"nowhere", "", 0, "neither demo, nor"},
		{dense, "", 0, "neither demo, nor"},
	} {
		m, err := readModel(tc.text)
		switch {
		case tc.problem != "":
			if err == nil || !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("%s: %v, want %q", tc.text, err, tc.problem)
			}
		case err != nil || m.Name != tc.name || len(m.MoELayers) == 0 || tc.layers > 0 && len(m.MoELayers) != tc.layers:
			t.Errorf("%s: %+v, %v", tc.text, m, err)
		}
	}
}

// A folder is made once, its users get new keys, and what is wrong is told.
func TestAuth(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "auth")
	for _, step := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no folder", []string{"rotate", dir}, cli.ExitUsage, dir + " is no folder of credentials (switchyard auth init makes one)"},
		{"init", []string{"init", dir, "--tenants", "acme", "--hosts", "nats.example.org"}, cli.ExitDone, "producer-acme"},
		{"again", []string{"init", dir}, cli.ExitUsage, dir + ": it is not empty"},
		{"bad tenant", []string{"init", dir + "2", "--tenants", "a.b"}, cli.ExitUsage, `"a.b"`},
		{"bad model", []string{"init", dir + "2", "--models", "nowhere"}, cli.ExitUsage, "--models"},
		{"rotate one", []string{"rotate", dir, "gate"}, cli.ExitDone, "new keys of gate\n"},
		{"rotate all", []string{"rotate", dir, "--certificate", "--expires", "1h"}, cli.ExitDone, "aggregator, attention"},
		{"certificate alone", []string{"rotate", dir, "sys", "--certificate", "--hosts", "10.0.0.8,b.example.org"}, cli.ExitDone, "server-key.pem, and have it read them"},
		{"hosts without it", []string{"rotate", dir, "--hosts", "10.0.0.8"}, cli.ExitUsage, "add --certificate"},
		{"few servers", []string{"init", dir + "2", "--servers", "a,b"}, cli.ExitUsage, "a cluster of 2 servers"},
		{"rotate for less than nothing", []string{"rotate", dir, "gate", "--expires=-1h"}, cli.ExitUsage, "credentials cannot be good for -1h0m0s"},
		{"update for less than nothing", []string{"update", dir, "--tenants", "acme,initech", "--expires=-1h"}, cli.ExitUsage, "credentials cannot be good for -1h0m0s"},
		{"init for less than nothing", []string{"init", dir + "2", "--expires=-1h"}, cli.ExitUsage, "credentials cannot be good for -1h0m0s"},
		{"no such user", []string{"rotate", dir, "gat"}, cli.ExitUsage, `no user "gat"; there are admin`},
		{"update", []string{"update", dir, "--models", "demo,big=3"}, cli.ExitDone, "new users: none\nremoved: none\n"},
		{"other tenants", []string{"update", dir, "--tenants", "globex"}, cli.ExitDone, "new users: producer-globex\nremoved: producer-acme\n"},
		{"limits", []string{"update", dir, "--models", "demo,big=61", "--object-store", "90GiB"}, cli.ExitDone, "limits: max_memory_store 5GiB, max_file_store 101GiB\n"},
		{"no limits", []string{"update", dir, "--log-bytes", "much"}, cli.ExitUsage, "--log-bytes"},
		{"update nowhere", []string{"update", dir + "2"}, cli.ExitUsage, "no folder of credentials"},
		{"show", []string{"show", "--tenants", "acme"}, cli.ExitDone, "producer-acme"},
	} {
		got := invoke("", append([]string{"auth"}, step.args...)...)
		text := got.Err
		if step.code == cli.ExitDone {
			text = got.Out
		}
		if got.Code != step.code || !strings.Contains(text, step.want) {
			t.Errorf("%s: %+v, want %q", step.name, got, step.want)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if made, err := filepath.Glob(filepath.Join(dir, "creds", "*.creds")); err != nil || !slices.Contains(made, filepath.Join(dir, "creds", "gate.creds")) {
		t.Errorf("%v, %v", made, err)
	}
}

// The operator sets what plans are to be like, and top only looks on: by the commands
// that they have, on a server that knows them.
func TestPlanAsUsers(t *testing.T) {
	t.Parallel()
	f := testusers.Make(t, testusers.Demo())
	srv := testusers.Serve(t, testusers.Plain(t, f))
	as := func(user string, args ...string) result {
		return invokePatiently(t, append(args, "--nats", srv.URL(), "--creds", f.Creds(user))...)
	}
	makePlans(t, srv, f)
	if got := as("operator", "plan", "set", "--replicas", "2", "--json"); got.Code != cli.ExitDone || !strings.Contains(got.Out, `"replicas":2`) {
		t.Errorf("set: %+v", got)
	}
	if got := as("operator", "plan", "get", "--json"); got.Code != cli.ExitDone || !strings.Contains(got.Out, `"replicas":2`) {
		t.Errorf("get: %+v", got)
	}
	if got := as("top", "plan", "set", "--replicas", "1", "--connect-timeout", "2s"); got.Code != cli.ExitFailed || !strings.Contains(got.Err, "permissions violation") || !strings.Contains(got.Err, "log in as a user with that right") {
		t.Errorf("top: %+v", got)
	}
}

// makePlans makes the buckets of plans and members, as setup does.
func makePlans(t *testing.T, srv *natsserver.Server, f credentials.Folder) {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.Config{Creds: f.Creds(rights.Setup)}, bus.Settings{InProcess: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names := schemas.Streams{Subjects: schemas.NewSubjects("switchyard", "demo")}
	for _, kind := range []string{"plans", "members"} {
		if _, err := conn.EnsureBucket(t.Context(), 1, names.Bucket(kind), 0); err != nil {
			t.Fatal(err)
		}
	}
}
