package chaos

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
)

// What auth init lets a tenant have unless told otherwise (switchyard auth init --help).
const producerConns, producerPayload, producerSubs = 32, 1 << 20, 1000

// exceed lets a tenant take more of the server than he may have. He is refused, and nobody
// else is: other tenants connect, and are answered.
func (g *guarded) exceed(t *testing.T) {
	conns := g.allConnections(t, producerConns)
	g.complete(t, g.producer(producer), "beside-all-connections", 8)
	refused := make(chan error, 1)
	conns[0].SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		select {
		case refused <- err:
		default:
		}
	})
	inbox := conns[0].NewInbox()
	for range 2 * producerSubs {
		if _, err := conns[0].SubscribeSync(inbox); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-refused; !errors.Is(err, nats.ErrMaxSubscriptionsExceeded) {
		t.Errorf("a subscription too many: %v", err)
	}
	if err := conns[1].Publish("switchyard.ask.demo.acme.low", make([]byte, producerPayload+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a message too large: %v", err)
	}
	for _, nc := range conns {
		nc.Close()
	}
}

// allConnections are as many as a tenant may have, beside those that he has.
func (g *guarded) allConnections(t *testing.T, most int) (conns []*nats.Conn) {
	t.Helper()
	for range most {
		nc, err := nats.Connect(g.url, nats.Timeout(testkit.Patience), nats.UserInfo(tenant, password), nats.CustomInboxPrefix("_INBOX."+tenant))
		if errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
			return conns
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		conns = append(conns, nc)
	}
	t.Errorf("a tenant has %d connections more", most)
	return conns
}

// raw is a connection on which what no client library would send can be written.
func (g *guarded) raw(t *testing.T, user string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"user\":%q,\"pass\":%q}\r\nPING\r\n", user, password); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "PONG") {
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed
	return conn
}

const (
	// headerFloods are sent for each subject, of as much as a producer may send.
	headerFloods = 100
	// beside is how many tokens another tenant asks for meanwhile.
	beside = 100
)

// sendHeaders lets a producer send what takes a client longest to read: messages of
// headers alone. Answers to others are whole meanwhile, and no service loses its connection.
func (g *guarded) sendHeaders(t *testing.T) {
	var h bytes.Buffer
	h.WriteString("NATS/1.0\r\n")
	for i := 0; h.Len() < producerPayload-100; i++ {
		fmt.Fprintf(&h, "%x:\r\n", i)
	}
	h.WriteString("\r\n")
	var running sync.WaitGroup
	defer running.Wait()
	for i, subject := range []string{"switchyard.cancel.demo.x", "switchyard.ask.demo.acme.low", "switchyard.replay.demo", "switchyard.prompt.demo.acme.low"} {
		raw := g.raw(t, tenant)
		running.Go(func() { g.complete(t, g.producer(producer), fmt.Sprint("beside-headers-", i), beside) })
		frame := fmt.Appendf(nil, "HPUB %s _INBOX.producer-acme.x %d %d\r\n%s\r\n", subject, h.Len(), h.Len(), h.Bytes())
		for range headerFloods {
			if _, err := raw.Write(frame); err != nil {
				t.Fatalf("%s: %v", subject, err)
			}
		}
		running.Wait()
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, kind := range kinds {
		if line := g.procs[kind].Find("lost the NATS connection"); line != "" {
			t.Errorf("%s: %s", kind, line)
		}
	}
}
