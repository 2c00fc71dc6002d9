package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/aggregator"
	"github.com/switchyard/switchyard/services/attention"
	"github.com/switchyard/switchyard/services/expert"
	"github.com/switchyard/switchyard/services/gate"
	"github.com/switchyard/switchyard/services/tokenizer"
)

// node is one process's share of a model: the model itself, the cores, and
// how to reach the server.
type node struct {
	model     *model.Model
	pool      *pool.Pool
	telemetry *telemetry.Telemetry
	log       *slog.Logger
	flags     ModelFlags
	prefix    string
	bus       bus.Config
	inProcess nats.InProcessConnProvider
	// keepModel leaves the model open when the node closes: it is shared.
	keepModel bool
}

// How the collector is set. Tensors make about 60 KB of garbage a hop, so Go's
// default, as much garbage as lives, collects a small model's process too often
// and lets a large one's grow for nothing.
const (
	// garbage is how many bytes may gather between two collections.
	garbage = 64 << 20
	// working is what comes to live beside the weights under load: KV pages,
	// the server's buffers.
	working = 64 << 20
)

// tuneCollector is called when the weights are loaded: they are what lives.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetGCPercent(int(min(max(100*garbage/(m.HeapAlloc+working), 10), 400)))
}

// connect opens a connection of its own for a service, and what counts on it.
func (n *node) connect(ctx context.Context, service string) (*bus.Conn, *deployment.Traffic, error) {
	traffic := deployment.NewTraffic(n.prefix, n.telemetry.Metrics)
	conn, err := bus.Connect(ctx, n.bus, bus.Settings{
		Name: "switchyard " + service, InProcess: n.inProcess, Propagator: n.propagator(), Observer: traffic, Logger: n.log,
	})
	return conn, traffic, err
}

// deploy gives a service its place in the model's pipeline.
func (n *node) deploy(ctx context.Context, service string, conn *bus.Conn, traffic *deployment.Traffic) (*deployment.Deployment, error) {
	logBytes, err := n.flags.logBytes()
	if err != nil {
		return nil, err
	}
	return deployment.Open(ctx, deployment.Settings{
		Conn: conn, Model: n.model, Pool: n.pool, Prefix: n.prefix, Name: n.flags.Name, Hops: n.flags.hops(),
		Wire: n.flags.wire(), Replicas: n.flags.Replicas, LogAge: n.flags.LogAge, LogBytes: logBytes, Version: semver(version),
		Telemetry: n.telemetry, Traffic: traffic, Logger: n.log.With("service", service),
	})
}

// propagator is nil without tracing, so that no message pays for it.
func (n *node) propagator() bus.Propagator {
	if n.telemetry.Tracer("bus") == nil {
		return nil
	}
	return n.telemetry.Propagator
}

// close closes what the node opened.
func (n *node) close() error {
	n.pool.Close()
	err := n.telemetry.Close()
	if n.keepModel {
		return err
	}
	if e := n.model.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("closing the model: %w", e))
	}
	return err
}

// makers make the services by name.
type makers struct {
	attention attention.Config
	expert    expert.Config
	tokenizer tokenizer.Config
}

// serviceNames is the order of starting: who is sent to comes before who sends.
var serviceNames = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

// check refuses what the model makes impossible.
func (m makers) check(of *model.Model, count map[string]int) error {
	if page := forward.CacheShape(&of.Spec).PageBytes(); count["attention"] > 0 && m.attention.KVBytes < page {
		return usage(fmt.Errorf("--kv-memory is %d bytes; a page of model %s has %d: give at least as much", m.attention.KVBytes, of.Name, page))
	}
	if count["expert"] > 0 {
		if err := m.expert.Check(of); err != nil {
			return usage(err)
		}
	}
	return nil
}

func (m makers) make(name string, d *deployment.Deployment) lifecycle.Service {
	switch name {
	case "aggregator":
		return aggregator.New(d)
	case "expert":
		return expert.New(d, m.expert)
	case "gate":
		return gate.New(d)
	case "attention":
		return attention.New(d, m.attention)
	}
	return tokenizer.New(d, m.tokenizer)
}

// modelName is the model's name in subjects.
func (n *node) modelName() string {
	if n.flags.Name != "" {
		return schemas.ModelToken(n.flags.Name)
	}
	return schemas.ModelToken(n.model.Name)
}
