package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/credentials"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/schemas"
)

// Node is one process's share of a model: the model itself, the cores, and
// how to reach the server.
type Node struct {
	// Shared is the same for all services of the process; each has a
	// connection of its own.
	Shared deployment.Settings
	Bus    bus.Config
	// Drain is how long the process may take to finish or hand over; 0: DrainTime.
	Drain time.Duration
	// KeepModel and KeepPool leave the model and the cores open when the node closes:
	// somebody else uses them too.
	KeepModel, KeepPool bool

	inProcess nats.InProcessConnProvider
	users     *credentials.Folder // of a server in this process; nil: it lets everybody in
}

func (n *Node) drain() time.Duration { return cmp.Or(n.Drain, DrainTime) }

// config returns how a user of this process connects.
func (n *Node) config(user string) bus.Config {
	c := n.Bus
	if n.users != nil {
		c.Creds = n.users.Creds(user)
	}
	return c
}

// mostGarbage is how many bytes may gather between two collections. Tensors make about 60 KB of garbage a
// hop, so Go's default, as much garbage as lives, collects a small model's process too often and lets a
// large one's grow for nothing.
const mostGarbage = 64 << 20

// BoundGarbage is called where all is loaded that will be: a pipeline is ready, or what a
// measurement keeps is there.
func BoundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.FreeOSMemory() // what loading left
		lifecycle.BoundGarbage(mostGarbage)
	}
}

// Replica is one replica of this process, with a connection of its own and what counts
// on it. Its connection's name and each line of its log have its id.
type Replica struct {
	Service, ID string
	Conn        *bus.Conn

	traffic *deployment.Traffic
	log     *slog.Logger
}

// Connect connects a replica of a service.
func (n *Node) Connect(ctx context.Context, service string) (r Replica, err error) {
	r = Replica{Service: service, ID: deployment.NewID(service), traffic: deployment.NewTraffic(n.Shared.Prefix, n.Shared.Telemetry.Metrics)}
	r.log = n.Shared.Logger.With("service", service, "replica", r.ID)
	s := bus.Settings{
		Name: "switchyard " + r.ID, InProcess: n.inProcess, Propagator: n.propagator(), Observer: r.traffic, Logger: r.log, Release: n.Shared.Version,
	}
	of, _ := catalog.Find(service)
	if of.Fronts { // it reads prompts as producers stored them
		s.MaxHeaders = maxHeaders
	}
	r.Conn, err = bus.Connect(ctx, n.config(service), s)
	return r, err
}

// maxHeaders are more header lines than anybody sends with a request.
const maxHeaders = 64

// ConnectEdge opens the connection on which a tokenizer hears and answers producers, as a user
// of their own if there is one. What counts on its other connection counts on it, too.
func (n *Node) ConnectEdge(ctx context.Context, own *bus.Config, r Replica) (*bus.Conn, error) {
	c := n.config(rights.Edge)
	if own != nil {
		c = *own
	}
	return bus.Connect(ctx, c, bus.Settings{
		Name: "switchyard " + rights.Edge + " " + r.ID, InProcess: n.inProcess, Propagator: n.propagator(), Observer: r.traffic, Logger: r.log, Release: n.Shared.Version,
		MaxHeaders: maxHeaders,
	})
}

// Deploy gives a replica its place in the model's pipeline.
func (n *Node) Deploy(ctx context.Context, r Replica) (*deployment.Deployment, error) {
	s := n.Shared
	s.Conn, s.Traffic, s.Logger, s.Replica = r.Conn, r.traffic, cmp.Or(r.log, n.Shared.Logger), r.ID
	return deployment.Open(ctx, s)
}

// propagator returns nil without tracing, so that no message pays for it.
func (n *Node) propagator() bus.Propagator {
	if !n.Shared.Telemetry.Traces() {
		return nil
	}
	return n.Shared.Telemetry.Propagator
}

// ModelName returns the model's name in subjects.
func (n *Node) ModelName() string {
	if n.Shared.Name != "" {
		return schemas.ModelToken(n.Shared.Name)
	}
	return schemas.ModelToken(n.Shared.Model.Name)
}

// Names returns the subjects and streams of the node's model.
func (n *Node) Names() schemas.Streams {
	return schemas.Streams{Subjects: schemas.NewSubjects(n.Shared.Prefix, n.ModelName())}
}

// wanted returns the node's model as whose streams are made.
func (n *Node) wanted() bus.Model {
	s := n.Names()
	s.Hops, s.LogAge, s.LogBytes, s.AllRows = n.Shared.Hops, n.Shared.LogAge, n.Shared.LogBytes, n.Shared.AllRows
	s.Moved = n.objects()
	s.PromptBytes = schemas.MaxPrompt(n.Shared.Model.Spec.LongestRequest())
	return bus.Model{Streams: s, MoELayers: deployment.MoELayers(n.Shared.Model)}
}

// objects reports whether the node's users may move rows through objects.
func (n *Node) objects() bool {
	if n.users == nil {
		return false
	}
	scope, err := n.users.ReadScope()
	return err == nil && slices.ContainsFunc(scope.Models, func(m rights.Model) bool { return m.Name == n.ModelName() && m.Objects })
}

// Close closes the cores, the telemetry and the model.
func (n *Node) Close() error {
	if !n.KeepPool && n.Shared.Pool != nil {
		n.Shared.Pool.Close()
	}
	err := n.Shared.Telemetry.Close()
	if n.KeepModel || n.Shared.Model == nil {
		return err
	}
	if e := n.Shared.Model.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("closing the model: %w", e))
	}
	return err
}
