package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// A service that cannot be announced, for want of a right, ends and says which right that is.
func TestUnannounced(t *testing.T) {
	const members, functions = "$KV.switchyard_members_demo.", "$KV.switchyard_functions_demo."
	no := func(subject string) *server.SubjectPermission {
		return &server.SubjectPermission{Deny: []string{subject + ">"}}
	}
	writers, readers := &server.Permissions{Publish: no(members)}, &server.Permissions{Subscribe: no(members)}
	type unannounced struct {
		service string
		rights  *server.Permissions
		want    string
	}
	all := []unannounced{{"expert", &server.Permissions{Publish: no(functions)}, "announcing functions: writing key "}}
	for _, service := range slices.Concat(cluster.Names, cluster.Loop) {
		all = append(all,
			unannounced{service, writers, `Permissions Violation for Publish to "` + members},
			unannounced{service, readers, `Permissions Violation for Subscription to "` + members})
	}
	for _, tc := range all {
		t.Run(tc.service+"/"+tc.want, func(t *testing.T) {
			t.Parallel()
			url := startNATS(t, &server.Options{
				JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{{Username: "u", Password: "p", Permissions: tc.rights}},
			}).ClientURL()
			args := []string{tc.service, "--nats", strings.Replace(url, "nats://", "nats://u:p@", 1), "--threads", "1"}
			if tc.service == "scaler" {
				args = append(args, "--kafka", "127.0.0.1:1")
			}
			if why := failed(t, args); !strings.Contains(why, tc.want) || !strings.Contains(why, "log in as a user with that right") {
				t.Errorf("%s, want %q", why, tc.want)
			}
		})
	}
}

// So does a host whose functions the bucket does not take.
func TestUntakenFunctions(t *testing.T) {
	t.Parallel()
	srv := startNATS(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc, err := nats.Connect(srv.ClientURL(), nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "switchyard_functions_demo", MaxValueSize: 8}); err != nil {
		t.Fatal(err)
	}
	why := failed(t, []string{"expert", "--nats", srv.ClientURL(), "--threads", "1"})
	for _, want := range []string{"announcing functions: writing key ", "message size exceeds maximum allowed"} {
		if !strings.Contains(why, want) {
			t.Errorf("%s, want %q", why, want)
		}
	}
}

// failed runs a service to its end, and returns why it failed.
func failed(t *testing.T, args []string) (why string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errOut sharedText
	ended := make(chan int, 1)
	go func() {
		ended <- runWaiting(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: &errOut}, patient)
	}()
	select {
	case code := <-ended:
		if code != cli.ExitFailed {
			t.Errorf("code %d", code)
		}
	case <-time.After(testkit.Patience):
		stop()
		<-ended
		t.Fatalf("it goes on: %s", errOut.String())
	}
	_, why, _ = strings.Cut(errOut.String(), "switchyard: ")
	return why
}
