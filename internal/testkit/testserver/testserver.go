// Package testserver gives tests a NATS server of their own, within the process.
package testserver

import (
	"log/slog"
	"testing"

	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// Connect starts a server and connects to it.
func Connect(t testing.TB) *bus.Conn {
	t.Helper()
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	conn, err := bus.Connect(t.Context(), bus.Config{}, bus.Settings{InProcess: srv, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}
