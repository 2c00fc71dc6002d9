package client

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// between is a client that knows of two servers, is at the first, and leaves it soon.
// The model is served at the second one, as when the first is cut off from it.
func between(t *testing.T) *Client {
	t.Helper()
	useless, useful := startServer(t), startServer(t)
	answer := func(f *fake, to, request string, from int32) { f.rest(to, request, 3, from) }
	startFake(t, useful,
		func(f *fake, p *pb.Prompt) { answer(f, p.ReplyTo, p.RequestId, 0) },
		func(f *fake, to string, r *pb.Replay) { answer(f, to, r.RequestId, r.FromIndex) })
	nc, err := nats.Connect(useless.ClientURL()+","+useful.ClientURL(), nats.Timeout(testkit.Patience), nats.DontRandomize(), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c := New(nc, Settings{Silence: 100 * time.Millisecond})
	c.leaveAfter = 30 * time.Millisecond
	return c
}

// TestLeave wants a client to go where it is served, with what it publishes and with
// what it reads.
func TestLeave(t *testing.T) {
	for name, begin := range map[string]func(*Client) (*Stream, error){
		"prompt": func(c *Client) (*Stream, error) { return c.Prompt(t.Context(), &pb.Prompt{Text: "hi"}) },
		"resume": func(c *Client) (*Stream, error) { return c.Resume(t.Context(), "one", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			c := between(t)
			s, err := begin(c)
			if err != nil {
				t.Fatal(err)
			}
			if text, last, err := read(s); err != nil || text != "0 1 2 " || last.GetFinishReason() != "length" {
				t.Errorf("got %q, end %v, error %v", text, last, err)
			}
		})
	}
}

// A server that hangs keeps its connections and answers nothing: it is left.
func TestLeaveHung(t *testing.T) {
	useful := startServer(t)
	startFake(t, useful, nil, func(f *fake, to string, r *pb.Replay) { f.rest(to, r.RequestId, 3, r.FromIndex) })
	nc, err := nats.Connect(hung(t)+","+useful.ClientURL(), nats.Timeout(testkit.Patience), nats.DontRandomize(), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := New(nc, Settings{Silence: 100 * time.Millisecond}).Resume(t.Context(), "one", 0)
	if err != nil {
		t.Fatal(err)
	}
	if text, last, err := read(s); err != nil || text != "0 1 2 " || last.GetFinishReason() != "length" {
		t.Errorf("got %q, end %v, error %v", text, last, err)
	}
}

// hung is the address of a server that takes a client in, and then does nothing more.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			all.Go(func() { takeIn(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return "nats://" + l.Addr().String()
}

// takeIn greets a client and reads what it says until it goes.
func takeIn(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, `INFO {"server_id":"hung","version":"2.11.0","proto":1,"headers":true,"max_payload":1048576}`+"\r\n")
	in := bufio.NewReader(conn)
	for line, err := in.ReadString('\n'); err == nil && line != "PING\r\n"; {
		line, err = in.ReadString('\n')
	}
	_, _ = io.WriteString(conn, "PONG\r\n")
	_, _ = io.Copy(io.Discard, in)
}

func TestUseless(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"accepted":        {nil, false},
		"no answer":       {context.DeadlineExceeded, true},
		"no leader":       {jetstream.ErrNoStreamResponse, true},
		"cut off":         {&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		"full":            {&jetstream.APIError{Code: 503, ErrorCode: 10077}, false},
		"no such model":   {&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		"not connected":   {nats.ErrConnectionReconnecting, false},
		"too large":       {nats.ErrMaxPayload, false},
		"closed for good": {nats.ErrConnectionClosed, false},
	} {
		if got := useless(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Nobody who serves the model is told after a while, wherever the client has been.
func TestLeaveInVain(t *testing.T) {
	a, b := startServer(t), startServer(t)
	nc, err := nats.Connect(a.ClientURL()+","+b.ClientURL(), nats.Timeout(testkit.Patience), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := New(nc, Settings{})
	first := c.nc.ConnectedUrl()
	c.leaveAfter = 100 * time.Millisecond
	if _, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"}); code(err) != CodeModelNotFound {
		t.Errorf("%v", err)
	}
	if c.left.Load() != 1 || c.nc.ConnectedUrl() == first {
		t.Errorf("%d servers were left; it is at %s, and began at %s", c.left.Load(), c.nc.ConnectedUrl(), first)
	}
}

// A stream that is not there is waited for until a server was left because of it, not
// when the connection breaks.
func TestMayReturn(t *testing.T) {
	a, b := startServer(t), startServer(t)
	nc, err := nats.Connect(a.ClientURL()+","+b.ClientURL(), nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	alone, err := nats.Connect(a.ClientURL(), nats.Timeout(testkit.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer alone.Close()
	for name, c := range map[string]struct {
		nc           *nats.Conn
		err          error
		begun, asked uint64
		want         bool
	}{
		"no leader":                  {nc, jetstream.ErrNoStreamResponse, 3, 3, true},
		"nor at the next server":     {nc, jetstream.ErrNoStreamResponse, 3, 4, false},
		"there is no other":          {alone, jetstream.ErrNoStreamResponse, 3, 3, false},
		"something else is the case": {nc, nats.ErrMaxPayload, 3, 3, false},
	} {
		if got := New(c.nc, Settings{}).mayReturn(c.err, c.begun, c.asked); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
