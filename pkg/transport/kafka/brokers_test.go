package kafka_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
)

// What SASL listeners ask for.
const (
	user     = "switchyard"
	password = "secret"
)

// broker is a broker that can be killed and started again on what it had.
type broker interface {
	// Config reaches it; Guarded does where a password is asked for.
	Config() kafka.Config
	Guarded(t testing.TB, password string) kafka.Config
	// Operator is how to make and delete topics, which others may not everywhere.
	Operator() *kafkago.Transport
	Kill(t testing.TB)
	Start(t testing.TB)
}

// kinds are what the tests run on, by name. Real ones skip the test where there is
// no Apache Kafka.
var kinds = []struct {
	Name  string
	Start func(t testing.TB, topics ...string) broker
}{{"embedded", startEmbedded}, {"apache", startApache}}

// guarded is a configuration with a password, which lies in a file.
func guarded(t testing.TB, addr, mechanism, password string) kafka.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return kafka.Config{Brokers: []string{addr}, SASL: mechanism, User: user, PasswordFile: file}
}

type inProcess struct {
	dir, addr string
	topics    []string
	open      *embedded.Broker
	asks      *embedded.Broker
}

// startEmbedded starts the embedded broker, and another one that asks for a password. Other
// topics than these can be made by its operator alone.
func startEmbedded(t testing.TB, topics ...string) broker {
	t.Helper()
	b := &inProcess{dir: t.TempDir(), addr: testkit.FreeAddr(t), topics: append([]string{kafka.DefaultTopic}, topics...)}
	b.Start(t)
	asks, err := embedded.Start(embedded.Settings{Listen: "127.0.0.1:0", Topics: b.topics, User: user, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	b.asks = asks
	t.Cleanup(func() {
		asks.Close()
		if b.open != nil {
			b.open.Close()
		}
	})
	return b
}

// Config is how to reach the broker without a password.
func (b *inProcess) Config() kafka.Config { return kafka.Config{Brokers: []string{b.addr}} }

// Guarded is how to reach a broker beside it that asks for a password.
func (b *inProcess) Guarded(t testing.TB, password string) kafka.Config {
	t.Helper()
	return guarded(t, b.asks.Addr(), "scram-sha-256", password)
}

// Operator reaches the broker past its guard.
func (b *inProcess) Operator() *kafkago.Transport { return &kafkago.Transport{Dial: b.open.Dial} }

// Kill closes the broker; its folder stays.
func (b *inProcess) Kill(testing.TB) {
	b.open.Close()
	b.open = nil
}

// Start opens the broker on its folder, at the address that it had.
func (b *inProcess) Start(t testing.TB) {
	t.Helper()
	open, err := embedded.Start(embedded.Settings{Listen: b.addr, Topics: b.topics, Dir: b.dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	b.open = open
}
