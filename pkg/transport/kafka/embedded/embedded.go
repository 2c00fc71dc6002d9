// Package embedded runs a broker that speaks Kafka's protocol inside this process,
// for `switchyard up` and for tests. It keeps what is young in memory, or in a
// folder; it is no replacement for Kafka where more than one process depends on it.
//
// The broker itself is a library's, made for tests: it believes what it is sent. So
// only this process reaches it (Dial), and a port, where one is asked for, leads to a
// guard that lets through what is well-formed, needed and within bounds.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/switchyard/switchyard/internal/flagvalue"
)

// Settings are what code sets.
type Settings struct {
	// Listen is HOST:PORT on the loopback where other processes reach the broker; empty:
	// none does.
	Listen string
	// Topics are those that other processes may use. The first one is made, with
	// Partitions.
	Topics     []string
	Partitions int
	// Dir keeps everything over restarts; empty: memory does until the end.
	Dir    string
	Logger *slog.Logger
	// User and Password, if set, are asked of other processes, by SCRAM-SHA-256 or -512.
	User, Password string
}

// What is kept: enough for a reader that was away for a while, in little memory.
const (
	keepFor      = 10 * time.Minute
	keepBytes    = 512 << 10 // of each partition
	segmentBytes = 128 << 10
	trimEvery    = 10 * time.Second
)

// What groups may have.
const (
	maxSession = time.Minute
	maxMembers = 16
)

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	pipes   *pipes
	guard   *guard // nil: there is no port
	stop    chan struct{}
	done    sync.WaitGroup
}

// inProcess is the address of a broker without a port.
const inProcess = "in-process:9092"

// Start listens at once.
func Start(s Settings) (b *Broker, err error) {
	if len(s.Topics) == 0 {
		return nil, errors.New("the embedded Kafka broker needs a topic")
	}
	pipes := &pipes{addr: address(inProcess), coming: make(chan net.Conn), closed: make(chan struct{})}
	b = &Broker{pipes: pipes, stop: make(chan struct{})}
	if s.Listen != "" {
		if b.guard, err = newGuard(s); err != nil {
			return nil, err
		}
		b.pipes.addr = b.guard.listener.Addr() // clients are told to come back there
	}
	if b.cluster, err = kfake.NewCluster(s.options(b.pipes)...); err != nil {
		b.guard.close()
		return nil, fmt.Errorf("starting the embedded Kafka broker: %w", err)
	}
	b.done.Go(b.trim)
	if b.guard != nil {
		b.guard.dial, b.guard.trim = b.pipes.dial, b.cluster.ApplyRetention
		b.done.Go(b.guard.serve)
	}
	return b, nil
}

func (s Settings) options(p *pipes) []kfake.Opt {
	opts := []kfake.Opt{
		kfake.NumBrokers(1), kfake.WithLogger(logAdapter{s.Logger}), kfake.ClusterID("switchyard"),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return p, nil }),
		kfake.SeedTopics(int32(cmp.Or(s.Partitions, defaultPartitions)), s.Topics[0]),
		kfake.GroupMaxSessionTimeout(maxSession),
		kfake.BrokerConfigs(map[string]string{
			"log.retention.ms": strconv.FormatInt(keepFor.Milliseconds(), 10), "log.retention.bytes": strconv.Itoa(keepBytes),
			"log.segment.bytes": strconv.Itoa(segmentBytes), "default.replication.factor": "1",
			"group.max.size": strconv.Itoa(maxMembers), "max.incremental.fetch.session.cache.slots": strconv.Itoa(maxConns),
		}),
	}
	if s.Dir != "" {
		opts = append(opts, kfake.DataDir(s.Dir))
	}
	return opts
}

// defaultPartitions is what a topic of samples is to have.
const defaultPartitions = 32

// Addr is HOST:PORT; without a port it is what Dial takes.
func (b *Broker) Addr() string { return b.pipes.addr.String() }

// Dial reaches the broker from this process, past the guard, whatever address a client
// has of it.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return b.pipes.dialContext(ctx)
}

// Close ends the broker.
func (b *Broker) Close() {
	close(b.stop)
	b.guard.close()
	b.done.Wait()
	b.cluster.Close()
	_ = b.pipes.Close() // it returns nil
}

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

// listen opens a port on the loopback: what is reached from elsewhere is to be a Kafka.
func listen(at string) (net.Listener, error) {
	if host, _, err := net.SplitHostPort(at); err != nil || !flagvalue.IsLoopback(host) {
		return nil, fmt.Errorf("the embedded Kafka broker's address is %q; it must be HOST:PORT on the loopback (for other machines run Kafka, and name it by --kafka)", at)
	}
	addr, err := net.ResolveTCPAddr("tcp", at)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka broker at %s: %w", at, err)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka broker at %s: %w", at, err)
	}
	return l, nil
}

// logAdapter takes the broker's errors and warnings.
type logAdapter struct{ out *slog.Logger }

func (l logAdapter) Logf(level kfake.LogLevel, format string, args ...any) {
	if l.out == nil || level > kfake.LogLevelWarn || level == kfake.LogLevelNone {
		return
	}
	l.out.Debug("the embedded Kafka broker says: " + fmt.Sprintf(format, args...))
}
