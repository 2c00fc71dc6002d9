package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
)

// clusterSettings are a whole pipeline in one process.
type clusterSettings struct {
	node *node
	makers
	// count is the replicas of each service.
	count map[string]int
	// listen is the server's address; empty: only this process reaches it.
	listen string
	// data is the server's folder; empty: a temporary one.
	data     string
	insecure bool
	// sync writes through to the disk before anything is acknowledged.
	sync bool
}

// one replica of each service.
func one() map[string]int {
	count := map[string]int{}
	for _, name := range serviceNames {
		count[name] = 1
	}
	return count
}

// cluster is a running pipeline in one process: server, services and all.
type cluster struct {
	settings clusterSettings
	server   *natsserver.Server
	pipeline *pipeline
	temp     string
	stop     context.CancelFunc
	ended    chan error
}

// openCluster starts everything and returns at once; ready waits for it.
func openCluster(ctx context.Context, s clusterSettings) (*cluster, error) {
	y := &cluster{settings: s, ended: make(chan error, 1)}
	if err := y.startServer(); err != nil {
		return nil, errors.Join(err, y.cleanUp())
	}
	s.node.inProcess = y.server
	y.pipeline = &pipeline{node: s.node, make: s.makers, count: s.count}
	s.node.telemetry.Watch(y.pipeline)
	ctx, y.stop = context.WithCancel(ctx)
	group := lifecycle.NewGroup("switchyard", s.node.telemetry, y.pipeline)
	go func() { y.ended <- lifecycle.Run(ctx, group, drainTime) }()
	return y, nil
}

func (y *cluster) startServer() (err error) {
	dir := y.settings.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "switchyard-"); err != nil {
			return fmt.Errorf("making a temporary data folder: %w", err)
		}
		y.temp = dir
	}
	y.server, err = natsserver.Start(natsserver.Settings{
		StoreDir: dir, Listen: y.settings.listen, Insecure: y.settings.insecure, SyncAlways: y.settings.sync, Logger: y.settings.node.log,
	})
	if err != nil {
		return usage(err)
	}
	return nil
}

// readyWithin bounds the wait for a pipeline in one process; loading a large
// model is most of it.
const readyWithin = 10 * time.Minute

// ready waits until a token can flow.
func (y *cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	waiting := make(chan error, 1)
	go func() { waiting <- awaitReady(ctx, y.pipeline) }()
	select {
	case err := <-waiting:
		tuneCollector()
		return err
	case err := <-y.ended:
		y.ended <- nil // told here, so that close does not tell it again
		if err == nil {
			err = errors.New("the pipeline ended before it was ready")
		}
		return err
	}
}

// connect opens a client's connection into the cluster.
func (y *cluster) connect(ctx context.Context) (*bus.Conn, error) {
	return bus.Connect(ctx, bus.Config{}, bus.Settings{Name: "switchyard client", InProcess: y.server, Logger: y.settings.node.log})
}

// wait returns when the pipeline has ended by itself or by a signal.
func (y *cluster) wait() error {
	err := <-y.ended
	y.ended <- err
	return err
}

// close stops everything and removes a temporary folder.
func (y *cluster) close() error {
	y.stop()
	return errors.Join(y.wait(), y.cleanUp())
}

func (y *cluster) cleanUp() error {
	if y.server != nil {
		y.server.Shutdown()
	}
	var err error
	if y.temp != "" {
		err = os.RemoveAll(y.temp)
	}
	return errors.Join(err, y.settings.node.close())
}
