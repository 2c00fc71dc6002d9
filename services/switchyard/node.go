package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/deployment"
	"github.com/switchyard/switchyard/pkg/lifecycle"
	"github.com/switchyard/switchyard/pkg/model"
	"github.com/switchyard/switchyard/pkg/telemetry"
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

	conns []*bus.Conn
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

// deployment opens a connection of its own for a service.
func (n *node) deployment(ctx context.Context, service string) (*deployment.Deployment, error) {
	traffic := deployment.NewTraffic(n.prefix, n.telemetry.Metrics)
	conn, err := bus.Connect(ctx, n.bus, bus.Settings{
		Name: "switchyard " + service, InProcess: n.inProcess, Propagator: n.propagator(), Observer: traffic, Logger: n.log,
	})
	if err != nil {
		return nil, err
	}
	n.conns = append(n.conns, conn)
	return deployment.Open(ctx, deployment.Settings{
		Conn: conn, Model: n.model, Pool: n.pool, Prefix: n.prefix, Name: n.flags.Name, Hops: n.flags.hops(),
		Wire: n.flags.wire(), Replicas: n.flags.Replicas, LogAge: n.flags.LogAge, Telemetry: n.telemetry, Traffic: traffic, Logger: n.log.With("service", service),
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
	for _, c := range n.conns {
		c.Close()
	}
	n.pool.Close()
	if n.keepModel {
		return nil
	}
	if err := n.model.Close(); err != nil {
		return fmt.Errorf("closing the model: %w", err)
	}
	return nil
}

// makers make the services by name.
type makers struct {
	attention attention.Config
	expert    expert.Config
	tokenizer tokenizer.Config
}

// serviceNames is the order of starting: who is sent to comes before who sends.
var serviceNames = []string{"aggregator", "expert", "gate", "attention", "tokenizer"}

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

// services makes count replicas of each named service.
func (n *node) services(ctx context.Context, m makers, count map[string]int) ([]lifecycle.Service, error) {
	var out []lifecycle.Service
	for _, name := range serviceNames {
		for range count[name] {
			d, err := n.deployment(ctx, name)
			if err != nil {
				return nil, fmt.Errorf("preparing %s: %w", name, err)
			}
			out = append(out, m.make(name, d))
		}
	}
	return out, nil
}

// modelName is the model's name in subjects.
func (n *node) modelName() string {
	if n.flags.Name != "" {
		return schemas.ModelToken(n.flags.Name)
	}
	return schemas.ModelToken(n.model.Name)
}
