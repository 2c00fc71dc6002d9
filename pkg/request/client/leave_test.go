package client

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	nc, err := nats.Connect(useless.ClientURL()+","+useful.ClientURL(), nats.DontRandomize(), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
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
			first := c.nc.ConnectedUrl()
			s, err := begin(c)
			if err != nil {
				t.Fatal(err)
			}
			if text, last, err := read(s); err != nil || text != "0 1 2 " || last.GetFinishReason() != "length" {
				t.Errorf("got %q, end %v, error %v", text, last, err)
			}
			if c.nc.ConnectedUrl() == first {
				t.Error("it is still at the first server")
			}
		})
	}
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
	nc, err := nats.Connect(a.ClientURL()+","+b.ClientURL(), nats.ReconnectWait(5*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c := New(nc, Settings{})
	c.leaveAfter, c.returnsWithin = 100*time.Millisecond, 150*time.Millisecond
	if _, err := c.Prompt(t.Context(), &pb.Prompt{Text: "hi"}); code(err) != CodeModelNotFound {
		t.Errorf("%v", err)
	}
}
