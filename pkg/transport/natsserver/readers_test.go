package natsserver

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
)

func TestTooSlow(t *testing.T) {
	for _, tc := range []struct {
		name    string
		waiting []int
		cut     int
	}{
		{"nobody", nil, 0},
		{"little", []int{50, 40, 10}, 0},
		{"a byte too much", []int{51, 40, 10}, 1},
		{"one alone", []int{101}, 1},
		{"many alike", []int{30, 30, 30, 30, 30}, 2},
		{"all", []int{200, 150, 101}, 3},
	} {
		var conns []*server.ConnInfo
		for i, n := range tc.waiting {
			conns = append(conns, &server.ConnInfo{Cid: uint64(i), Pending: n})
		}
		if got := len(tooSlow(conns, 100)); got != tc.cut {
			t.Errorf("%s: %d are cut off, want %d", tc.name, got, tc.cut)
		}
	}
}

// stuck dials connections that are read until stick.
type stuck struct{ read, never chan struct{} }

func newStuck() *stuck { return &stuck{make(chan struct{}), make(chan struct{})} }

func (s *stuck) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return stuckConn{c, s}, err
}

type stuckConn struct {
	net.Conn
	s *stuck
}

func (c stuckConn) Read(p []byte) (int, error) {
	select {
	case <-c.s.read:
		<-c.s.never
	default:
	}
	return c.Conn.Read(p)
}

// Of a tenant's connections those for which most waits are cut off when too much does
// together, and those who read, his and others', are not.
func TestReaders(t *testing.T) {
	srv, as := withProducers(t)
	const many = 6
	for range many {
		s := newStuck()
		nc := as.user(t, "producer-acme", nats.SetCustomDialer(s), nats.PingInterval(time.Hour))
		t.Cleanup(func() { close(s.never) })
		if _, err := nc.SubscribeSync("_INBOX.producer-acme.x"); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		close(s.read)
	}
	good, edge := as.user(t, "producer-acme"), as.user(t, rights.Edge)
	other := as.user(t, "producer")
	chunk, began := make([]byte, 1<<20), srv.inner.Load().NumClients()
	for began-srv.inner.Load().NumClients() < many-1 { // the last one alone may have as much as all
		for range 4 {
			if err := edge.Publish("_INBOX.producer-acme.x", chunk); err != nil {
				t.Fatal(err)
			}
		}
		if err := edge.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for _, nc := range []*nats.Conn{good, edge, other} {
		if err := nc.Flush(); err != nil {
			t.Errorf("who reads: %v", err)
		}
	}
}

// withProducers is a server with users, and a way to connect as one.
func withProducers(t *testing.T) (*Server, login) {
	t.Helper()
	f, err := credentials.Init(filepath.Join(t.TempDir(), "auth"), credentials.Settings{Scope: rights.Scope{
		Prefix: "switchyard", Models: []rights.Model{{Name: "demo", MoELayers: []int{0}}}, Tenants: []string{"acme"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := f.Trust()
	if err != nil {
		t.Fatal(err)
	}
	srv, err := Start(Settings{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Trust: trust})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Shutdown)
	return srv, login{srv.URL(), f}
}

// login connects users of a folder.
type login struct {
	url    string
	folder credentials.Folder
}

func (l login) try(user string, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect(l.url, append(opts, nats.Timeout(testkit.Patience), nats.UserCredentials(l.folder.Creds(user)),
		nats.CustomInboxPrefix(rights.InboxOf(user)), nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
}

func (l login) user(t *testing.T, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := l.try(user, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}
