package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	kafkago "github.com/segmentio/kafka-go"
)

// client speaks to the brokers; its transport's connections are the caller's to close.
// refused is told of batches that are left out of what is read.
func (c Config) client(s security, refused func(error)) (*kafkago.Client, *kafkago.Transport) {
	t := &kafkago.Transport{
		DialTimeout: dialTimeout, MetadataTTL: metadataTTL, MetadataTopics: []string{c.topic()}, ClientID: "switchyard",
		Dial: c.dial(s, refused), SASL: s.sasl,
	}
	return &kafkago.Client{Addr: kafkago.TCP(c.Brokers...), Transport: t, Timeout: requestTimeout}, t
}

// dialer opens the connections of a group's member, which end with the leash.
func (c Config) dialer(s security, l *leash) *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: "switchyard", Timeout: dialTimeout, DialFunc: l.hold(c.dial(s, nil)), SASLMechanism: s.sasl}
}

// leash ends connections in which the library waits, as a member does for all others of
// its group.
type leash struct {
	mu    sync.Mutex
	ended bool
	conns map[*held]struct{}
}

// held is a connection on a leash.
type held struct {
	net.Conn
	leash *leash
}

func (h *held) Close() error {
	h.leash.mu.Lock()
	delete(h.leash.conns, h)
	h.leash.mu.Unlock()
	return h.Conn.Close()
}

func (l *leash) hold(open dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := open(ctx, network, address)
		if err != nil {
			return nil, err
		}
		h := &held{conn, l}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended {
			_ = conn.Close() // nothing was said
			return nil, net.ErrClosed
		}
		l.conns[h] = struct{}{}
		return h, nil
	}
}

// end closes all, and those that are opened from now on.
func (l *leash) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for h := range l.conns {
		_ = h.Conn.Close() // who waits in it is told
	}
}

type dialing = func(ctx context.Context, network, address string) (net.Conn, error)

// dial opens connections that are encrypted if they are to be, and looked at: the
// library would encrypt what it gets from here, and nothing could be looked at then.
func (c Config) dial(s security, refused func(error)) dialing {
	open := c.Dial
	if open == nil {
		open = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := open(ctx, network, address)
		if err == nil && s.tls != nil {
			conn, err = encrypt(ctx, conn, s.tls, address)
		}
		if err != nil {
			return nil, err
		}
		return &checked{Conn: conn, refused: refused, asked: map[int32]question{}}, nil
	}
}

func encrypt(ctx context.Context, conn net.Conn, with *tls.Config, address string) (net.Conn, error) {
	with = with.Clone()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	with.ServerName = host
	out := tls.Client(conn, with)
	if err := out.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // that it could not be encrypted says more
		return nil, fmt.Errorf("encrypting the connection to %s: %w", address, err)
	}
	return out, nil
}
