package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

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

// dialer opens the connections of a group's member.
func (c Config) dialer(s security) *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: "switchyard", Timeout: dialTimeout, DialFunc: c.dial(s, nil), SASLMechanism: s.sasl}
}

// dialing opens a connection.
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
		return newChecked(conn, refused), nil
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
