package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
)

const (
	// DefaultTopic is where load samples go.
	DefaultTopic = "switchyard.load"
	// LeastPartitions is how many partitions a topic of samples is to have, so that
	// the layers of a model spread over the members of a group.
	LeastPartitions = 32
	// MaxSample is the largest sample that is sent, and that is decoded.
	MaxSample = 256 << 10
)

// Config is what an operator sets.
type Config struct {
	// Brokers are HOST:PORT of some of the brokers; the others are found by these.
	Brokers []string
	// Topic of the samples; empty is DefaultTopic.
	Topic string

	// TLS encrypts. CA is a PEM file with the authority that signed the brokers'
	// certificates, which turns it on; empty: the system's.
	TLS bool
	CA  string
	// SASL is the mechanism by which User proves the password in PasswordFile: plain,
	// scram-sha-256 or scram-sha-512; empty is none.
	SASL               string
	User, PasswordFile string
	// Insecure allows connections without TLS off the loopback.
	Insecure bool

	// Dial is set by code: it reaches brokers that are in this process; nil: TCP does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Validate says what is wrong, by the names of the flags. It reads the files.
func (c Config) Validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("--kafka names no broker; give HOST:PORT")
	}
	for _, b := range c.Brokers {
		if err := c.checkBroker(b); err != nil {
			return err
		}
	}
	if t := c.topic(); !topicName.MatchString(t) || t == "." || t == ".." {
		return fmt.Errorf("--kafka-topic is %q; it must have at most 249 letters, digits, '.', '_' or '-'", t)
	}
	_, err := c.security()
	return err
}

func (c Config) checkBroker(b string) error {
	host, port, err := net.SplitHostPort(b)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("--kafka has %q; it must be HOST:PORT", b)
	}
	if err := flagvalue.CheckPort(port); err != nil {
		return fmt.Errorf("--kafka has %q; %w", b, err)
	}
	if !c.encrypted() && !c.Insecure && !flagvalue.IsLoopback(host) {
		return fmt.Errorf("--kafka has %q, which is another machine, and no TLS: give --kafka-tls or --kafka-ca, or --insecure on a network of your own", b)
	}
	return nil
}

func (c Config) encrypted() bool { return c.TLS || c.CA != "" }

func (c Config) topic() string {
	if c.Topic == "" {
		return DefaultTopic
	}
	return c.Topic
}

const (
	dialTimeout = 5 * time.Second
	// metadataTTL bounds how long a broker's restart elsewhere goes unnoticed.
	metadataTTL = time.Second
)

const requestTimeout = 10 * time.Second
