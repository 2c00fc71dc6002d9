package natsserver_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testusers"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// With users and TLS a server may listen everywhere, with one of them it may not.
func TestListenBeyondTheLoopback(t *testing.T) {
	f := testusers.Make(t, testusers.Demo())
	whole := testusers.Guarded(t, f)
	whole.Listen = "0.0.0.0:0"
	for _, s := range []natsserver.Settings{{Trust: whole.Trust}, {TLS: whole.TLS}} {
		s.StoreDir, s.Listen = t.TempDir(), whole.Listen
		if srv, err := natsserver.Start(s); !errors.Is(err, natsserver.ErrPublicListen) {
			t.Errorf("half of it: %v", err)
			if err == nil {
				srv.Shutdown()
			}
		}
	}
	srv := testusers.Serve(t, whole)
	if !strings.HasPrefix(srv.URL(), "tls://127.0.0.1:") {
		t.Errorf("URL %s", srv.URL())
	}
	nc, err := nats.Connect(srv.URL(), nats.Timeout(testkit.Patience), nats.UserCredentials(f.Creds("top")), nats.RootCAs(f.CA()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
