// Package embedded runs a broker that speaks Kafka's protocol inside this process,
// for `switchyard up` and for tests. It keeps what is young in memory, or in a
// folder; it is no replacement for Kafka where more than one process depends on it.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/switchyard/switchyard/internal/loopback"
)

// Settings are what code sets.
type Settings struct {
	// Listen is HOST:PORT on the loopback; empty is a free port.
	Listen string
	// Dir keeps everything over restarts; empty: memory does until the end.
	Dir    string
	Logger *slog.Logger
	// User and Password, if set, are asked for by SASL's PLAIN mechanism.
	User, Password string
}

// What is kept: enough for a reader that was away for a while, in little memory.
const (
	keepFor      = 10 * time.Minute
	keepBytes    = 1 << 20 // of each partition
	segmentBytes = 256 << 10
	trimEvery    = 10 * time.Second
)

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	stop    chan struct{}
	done    sync.WaitGroup
}

// Start listens at once.
func Start(s Settings) (*Broker, error) {
	if s.Listen == "" {
		s.Listen = "127.0.0.1:0"
	}
	if host, _, err := net.SplitHostPort(s.Listen); err != nil || !loopback.Is(host) {
		return nil, fmt.Errorf("the embedded Kafka broker's address is %q; it must be HOST:PORT on the loopback", s.Listen)
	}
	c, err := kfake.NewCluster(s.options()...)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka broker at %s: %w", s.Listen, err)
	}
	b := &Broker{cluster: c, addr: c.ListenAddrs()[0], stop: make(chan struct{})}
	b.done.Go(b.trim)
	return b, nil
}

func (s Settings) options() []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.WithLogger(logAdapter{s.Logger}), kfake.ClusterID("switchyard"),
		kfake.ListenFn(func(network, _ string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(context.Background(), network, s.Listen)
		}),
		kfake.BrokerConfigs(map[string]string{
			"log.retention.ms": strconv.FormatInt(keepFor.Milliseconds(), 10), "log.retention.bytes": strconv.Itoa(keepBytes),
			"log.segment.bytes": strconv.Itoa(segmentBytes), "default.replication.factor": "1",
		}),
	}
	if s.Dir != "" {
		opts = append(opts, kfake.DataDir(s.Dir))
	}
	if s.User != "" {
		opts = append(opts, kfake.EnableSASL(), kfake.Superuser("PLAIN", s.User, s.Password))
	}
	return opts
}

// Addr is HOST:PORT.
func (b *Broker) Addr() string { return b.addr }

// Close ends the broker.
func (b *Broker) Close() {
	close(b.stop)
	b.done.Wait()
	b.cluster.Close()
}

// trim drops what is too old or too much.
func (b *Broker) trim() {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			b.cluster.ApplyRetention()
		}
	}
}

// logAdapter takes the broker's errors and warnings.
type logAdapter struct{ out *slog.Logger }

// Logf is called by the broker.
func (l logAdapter) Logf(level kfake.LogLevel, format string, args ...any) {
	if l.out == nil || level > kfake.LogLevelWarn || level == kfake.LogLevelNone {
		return
	}
	l.out.Debug("the embedded Kafka broker says: " + fmt.Sprintf(format, args...))
}
