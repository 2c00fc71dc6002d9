// Package cluster runs a model's services in this process: some of them as one
// process of a deployment, or all of them with a NATS server (the in-process
// cluster).
package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/kafka/embedded"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// Settings are a whole pipeline in one process.
type Settings struct {
	Node     *Node
	Services Services
	// Count is the replicas of each service.
	Count map[string]int
	// Listen is the server's address; empty: only this process reaches it.
	Listen string
	// Data is the server's folder; empty: a temporary one.
	Data string
	// Insecure allows an address off the loopback.
	Insecure bool
	// Sync writes through to the disk before anything is acknowledged.
	Sync bool
	// EmbedKafka starts a Kafka broker in this process unless the services have one.
	EmbedKafka bool
}

// DrainTime is how long a stopping process may take to finish or hand over.
const DrainTime = 10 * time.Second

// Cluster is a running pipeline in one process: server, services and all.
type Cluster struct {
	Settings Settings
	Pipeline *Pipeline

	server *natsserver.Server
	broker *embedded.Broker // nil: none in this process
	temp   string
	stop   context.CancelFunc
	ended  chan error
}

// Open starts everything and returns at once; Ready waits for it. An error is
// of the server: its address or folder cannot be used. The node is closed then.
func Open(ctx context.Context, s Settings) (*Cluster, error) {
	y := &Cluster{Settings: s, ended: make(chan error, 1)}
	if err := errors.Join(y.startServer(), y.embedKafka()); err != nil {
		return nil, errors.Join(err, y.cleanUp())
	}
	s.Node.inProcess = y.server
	y.Pipeline = NewPipeline(s.Node, y.Settings.Services, s.Count)
	ctx, y.stop = context.WithCancel(ctx)
	go func() { y.ended <- y.Pipeline.Serve(ctx) }()
	return y, nil
}

func (y *Cluster) startServer() (err error) {
	dir := y.Settings.Data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "switchyard-"); err != nil {
			return fmt.Errorf("making a temporary data folder: %w", err)
		}
		y.temp = dir
	}
	y.server, err = natsserver.Start(natsserver.Settings{
		StoreDir: dir, Listen: y.Settings.Listen, Insecure: y.Settings.Insecure, SyncAlways: y.Settings.Sync, Logger: y.Settings.Node.Shared.Logger,
	})
	return err
}

// readyWithin bounds the wait for a pipeline in one process; loading a large
// model is most of it.
const readyWithin = 10 * time.Minute

// Ready waits until a token can flow.
func (y *Cluster) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	waiting := make(chan error, 1)
	go func() { waiting <- y.Pipeline.AwaitReady(ctx) }()
	select {
	case err := <-waiting:
		return err
	case err := <-y.ended:
		y.ended <- nil // said once, as by Wait
		if err == nil {
			err = errors.New("the pipeline ended before it was ready")
		}
		return err
	}
}

// Connect opens a client's connection into the cluster.
func (y *Cluster) Connect(ctx context.Context) (*bus.Conn, error) {
	return bus.Connect(ctx, bus.Config{}, bus.Settings{Name: "switchyard client", InProcess: y.server, Logger: y.Settings.Node.Shared.Logger})
}

// Client returns a client with a connection of its own, which stop closes.
func (y *Cluster) Client(ctx context.Context) (c *client.Client, stop func(), err error) {
	conn, err := y.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	n := y.Settings.Node
	return client.New(conn.NATS(), client.Settings{Prefix: n.Shared.Prefix, Model: n.ModelName()}), conn.Close, nil
}

// URL is where clients reach the server.
func (y *Cluster) URL() string { return y.server.URL() }

// Messages is how many messages the services have published.
func (y *Cluster) Messages() (n uint64) {
	for _, c := range y.Pipeline.Connections() {
		n += c.NATS().Stats().OutMsgs
	}
	return n
}

// Wait returns when the pipeline has ended by itself or by a signal, and says
// once why.
func (y *Cluster) Wait() error {
	err := <-y.ended
	y.ended <- nil
	return err
}

// Close stops everything and removes a temporary folder.
func (y *Cluster) Close() error {
	y.stop()
	return errors.Join(y.Wait(), y.cleanUp())
}

func (y *Cluster) cleanUp() error {
	if y.server != nil {
		y.server.Shutdown()
	}
	var err error
	if y.temp != "" {
		err = os.RemoveAll(y.temp)
	}
	if y.broker != nil {
		y.broker.Close()
	}
	return errors.Join(err, y.Settings.Node.Close())
}
