// Package testusers gives tests a folder of credentials, and a server that knows its users.
package testusers

import (
	"path/filepath"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// Demo returns a scope with a model demo of one layer.
func Demo(tenants ...string) credentials.Settings {
	return credentials.Settings{Scope: rights.Scope{
		Prefix: schemas.DefaultPrefix, Models: []rights.Model{{Name: "demo", MoELayers: []int{0}}}, Tenants: tenants,
	}}
}

// Make makes a folder.
func Make(t testing.TB, s credentials.Settings) credentials.Folder {
	t.Helper()
	f, err := credentials.Init(filepath.Join(t.TempDir(), "auth"), s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Guarded returns settings of a server on the loopback that knows a folder's users, over TLS.
func Guarded(t testing.TB, f credentials.Folder) natsserver.Settings {
	t.Helper()
	trust, err := f.Trust()
	if err != nil {
		t.Fatal(err)
	}
	encrypted, err := f.TLS()
	if err != nil {
		t.Fatal(err)
	}
	return natsserver.Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Trust: trust, TLS: encrypted}
}

// Plain is Guarded without TLS.
func Plain(t testing.TB, f credentials.Folder) natsserver.Settings {
	t.Helper()
	s := Guarded(t, f)
	s.TLS = nil
	return s
}

// Serve runs a server.
func Serve(t testing.TB, s natsserver.Settings) *natsserver.Server {
	t.Helper()
	srv, err := natsserver.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return srv
}
