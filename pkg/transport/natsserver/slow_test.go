package natsserver

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
)

// slowPending is the bound of what waits for a client in this test.
const slowPending = 64 << 10

// startSmall starts a server like ours that lets little wait for a client.
func startSmall(t *testing.T) *server.Server {
	t.Helper()
	opts, err := Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"}.options()
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxPending, opts.MaxPayload = slowPending, slowPending/8
	inner, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	log := newLogAdapter(nil, newFolder(Settings{}))
	inner.SetLoggerV2(log, false, false, false)
	go inner.Start()
	t.Cleanup(func() { inner.Shutdown(); inner.WaitForShutdown() })
	if err := awaitReady(inner, log); err != nil {
		t.Fatal(err)
	}
	return inner
}

// Who listens and hangs makes nobody wait who publishes.
func TestHungListenerDelaysNobody(t *testing.T) {
	inner := startSmall(t)
	hung, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	if _, err := fmt.Fprint(hung, "CONNECT {\"verbose\":false}\r\nSUB rows 1\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(hung); lines.Scan() && !strings.HasPrefix(lines.Text(), "PONG"); {
	}
	nc, err := nats.Connect("", nats.Timeout(testkit.Patience), nats.InProcessServer(inner))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	row := make([]byte, 1<<10)
	for range 64 << 10 { // far more than sockets and the bound hold
		if err := nc.Publish("rows", row); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	v, err := inner.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.StalledClients != 0 {
		t.Errorf("publishers waited %d times for one who hangs", v.StalledClients)
	}
}
