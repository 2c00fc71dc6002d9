package natsserver

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

// With users and TLS a server may listen everywhere, with one of them it may not.
func TestListenBeyondTheLoopback(t *testing.T) {
	f, err := credentials.Init(filepath.Join(t.TempDir(), "auth"), credentials.Settings{
		Scope: rights.Scope{Prefix: "switchyard", Models: []rights.Model{{Name: "demo"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := f.Trust()
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := f.TLS()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Settings{{Trust: trust}, {TLS: encrypted}} {
		s.StoreDir, s.Listen = t.TempDir(), "0.0.0.0:0"
		if srv, err := Start(s); !errors.Is(err, ErrPublicListen) {
			t.Errorf("half of it: %v", err)
			if err == nil {
				srv.Shutdown()
			}
		}
	}
	srv, err := Start(Settings{StoreDir: t.TempDir(), Listen: "0.0.0.0:0", Trust: trust, TLS: encrypted})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	if !strings.HasPrefix(srv.URL(), "tls://127.0.0.1:") {
		t.Errorf("URL %s", srv.URL())
	}
	nc, err := nats.Connect(srv.URL(), nats.UserCredentials(f.Creds("top")), nats.RootCAs(f.CA()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}
