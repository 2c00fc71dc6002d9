package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/service"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	"github.com/switchyard/switchyard/pkg/transport/rights"
	"github.com/switchyard/switchyard/services"
	"github.com/switchyard/switchyard/services/provision"
)

// Pipeline is this process's services as one. It connects them when it is
// started: until then the process can be asked what it waits for.
type Pipeline struct {
	node     *Node
	services Services
	count    map[string]int
	loads    *kafka.Writer // nil: nobody wants them
	adder    *loads.Adder  // before loads
	unfollow func()        // ends what metrics say of loads

	mu     sync.Mutex
	began  time.Time
	making string // the service that is or was connected last; empty before
	kept   error  // why the service that is connected may not come; nil: it may
	conns  []*bus.Conn
	needed []*bus.Conn         // without which tokens do not flow
	made   []lifecycle.Service // in the order of starting
	joined []*deployment.Presence
	group  *lifecycle.Group // of them; nil until all are connected, or it stops
	again  any              // settings that were changed since; nil: none were

	replicas []*replica         // those that can be asked to drain
	drains   sync.WaitGroup     // those under way
	ending   bool               // Stop was called
	end      context.CancelFunc // of Serve
}

// NewPipeline prepares so many replicas of each service.
func NewPipeline(n *Node, s Services, count map[string]int) *Pipeline {
	return &Pipeline{node: n, services: s, count: count, end: func() {}}
}

// Serve runs the services, and what the process tells about itself, until ctx
// ends or they do.
func (p *Pipeline) Serve(ctx context.Context) error {
	t := p.node.Shared.Telemetry
	t.Watch(p)
	ctx, end := context.WithCancel(ctx)
	defer end()
	p.mu.Lock()
	p.end = end
	p.mu.Unlock()
	return lifecycle.Run(ctx, lifecycle.NewGroup("switchyard", t, p), p.node.drain())
}

// readyPoll is how often readiness is looked at.
const readyPoll = 5 * time.Millisecond

// AwaitReady returns when a token can flow, or ctx's error with what was missing.
func (p *Pipeline) AwaitReady(ctx context.Context) error {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		missing := p.Ready()
		if missing == nil {
			BoundGarbage()
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; not ready yet: %w", ctx.Err(), missing)
		case <-tick.C:
		}
	}
}

// Name is for errors and readiness.
func (p *Pipeline) Name() string { return "services" }

// Start connects to NATS, for as long as that takes, and starts the services.
func (p *Pipeline) Start(ctx context.Context) error {
	if err := p.openLoads(); err != nil {
		return err
	}
	if err := p.makeStreams(ctx); err != nil {
		return fmt.Errorf("making streams: %w", err)
	}
	for _, name := range catalog.StartOrder() {
		for range p.count[name] {
			if err := p.connect(ctx, name); err != nil {
				return fmt.Errorf("preparing %s: %w", name, err)
			}
		}
	}
	return p.gather().Start(ctx)
}

// makeStreams makes the streams, and keeps them, where this process has the server and its
// users: of those only one may.
func (p *Pipeline) makeStreams(ctx context.Context) error {
	if p.node.users == nil {
		return nil
	}
	s := provision.New(provision.Settings{
		How: bus.Provision{Replicas: p.node.Shared.Replicas}, Logger: p.node.Shared.Logger.With("service", rights.Setup),
		Connect: func(ctx context.Context) (*bus.Conn, error) {
			r, err := p.open(ctx, rights.Setup)
			return r.Conn, err
		},
		Find: func(context.Context, *bus.Conn) ([]bus.Model, error) { return []bus.Model{p.node.wanted()}, nil },
	})
	p.mu.Lock()
	p.made = append(p.made, s)
	p.mu.Unlock()
	return s.Start(ctx)
}

// gather makes the group of the services that there are, once.
func (p *Pipeline) gather() *lifecycle.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.group == nil {
		p.group = lifecycle.NewGroup("services", p.made...)
	}
	return p.group
}

// connect makes a service on a connection of its own. Stop ends what it comes to make,
// also when it fails.
func (p *Pipeline) connect(ctx context.Context, name string) error {
	of, err := services.Find(name)
	if err != nil {
		return err
	}
	r, err := p.open(ctx, name)
	if err != nil {
		return err
	}
	if of.Bare != nil {
		return p.connectBare(of, r)
	}
	d, err := p.deploy(ctx, r)
	if err != nil {
		return err
	}
	one := &replica{Replica: r, subjects: d.Subjects}
	if of.Fronts {
		if d.Edge, err = p.node.ConnectEdge(ctx, p.services.Edge, r); err != nil {
			return fmt.Errorf("connecting to producers: %w", err)
		}
		p.connected(name, d.Edge)
		one.edge = d.Edge
		if d.Guard, err = p.node.ConnectEdge(ctx, p.services.Edge, r); err != nil {
			return fmt.Errorf("connecting to producers: %w", err)
		}
		p.mu.Lock()
		p.conns = append(p.conns, d.Guard) // the process goes on without it
		p.mu.Unlock()
		one.guard = d.Guard
	}
	d.Joined, d.Ending = p.join, p.isEnding
	d.TellStart()
	s, err := p.services.Make(name, d)
	if err != nil {
		return err
	}
	s = p.add(name, s, d.Logger)
	one.service = s
	//nolint:contextcheck,nolintlint // a replica drains, however long it takes to connect
	if err := p.hearDrains(one); err != nil {
		return err
	}
	if of.Prepare == nil {
		return nil
	}
	return of.Prepare(ctx, d, p.services.settings(name))
}

// connectBare makes a service that has no model on its connection.
func (p *Pipeline) connectBare(of service.Descriptor, r Replica) error {
	shared := &p.node.Shared
	s, err := of.Bare(service.Bare{
		ID: r.ID, Conn: r.Conn, Prefix: shared.Prefix, Version: shared.Version, Telemetry: shared.Telemetry, Logger: r.log,
	}, p.services.settings(of.Name))
	if err == nil {
		p.add(of.Name, s, r.log)
	}
	return err
}

// add adds a service to those that are started and stopped.
func (p *Pipeline) add(name string, s lifecycle.Service, log *slog.Logger) lifecycle.Service {
	if p.background(name) {
		s = &background{Service: s, log: log}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made = append(p.made, s)
	reloadOne(s, p.again)
	return s
}

// Reload has services take other settings of their own while they run, as far as they can.
func (p *Pipeline) Reload(own any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = own
	for _, s := range p.made {
		reloadOne(s, own)
	}
}

func reloadOne(s lifecycle.Service, own any) {
	if r, can := s.(interface{ Reload(own any) }); can && own != nil {
		r.Reload(own)
	}
}

// open opens a connection for a service, which Stop closes.
func (p *Pipeline) open(ctx context.Context, name string) (Replica, error) {
	p.mu.Lock()
	p.making, p.began = name, time.Now()
	p.mu.Unlock()
	r, err := p.node.Connect(ctx, name)
	if err == nil {
		p.connected(name, r.Conn)
	}
	return r, err
}

// connected notes a connection of a service.
func (p *Pipeline) connected(name string, conn *bus.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, conn)
	if !p.background(name) {
		p.needed = append(p.needed, conn)
	}
}

// deploy gives a replica its place. It waits as long as members of another kind are here, and says so: whoever may
// write among the members may have invented them, so they end nobody.
func (p *Pipeline) deploy(ctx context.Context, r Replica) (*deployment.Deployment, error) {
	var said pause.ErrorLog
	for {
		d, err := p.node.Deploy(ctx, r)
		var other *deployment.ClassError
		if !errors.As(err, &other) {
			p.keepOut(nil)
			return d, err
		}
		p.keepOut(err)
		said.Error(cmp.Or(r.log, p.node.Shared.Logger), "a replica waits until those of another kind are gone", err)
		if end := pause.For(ctx, kindPause); end != nil {
			return nil, err
		}
	}
}

// kindPause is how often it is looked whether members of another kind are gone.
const kindPause = 500 * time.Millisecond

func (p *Pipeline) keepOut(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = why
}

// join notes a replica that watches the members.
func (p *Pipeline) join(one *deployment.Presence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = append(p.joined, one)
}

// strays says why a replica of this process may not stay; nil: all may.
func (p *Pipeline) strays() error {
	p.mu.Lock()
	kept, joined := p.kept, slices.Clone(p.joined)
	p.mu.Unlock()
	for _, one := range joined {
		kept = cmp.Or(kept, one.MayStay())
	}
	return kept
}

// background says of a service that no token passes that this process serves tokens
// as well, and does so without it.
func (p *Pipeline) background(name string) bool {
	return !slices.Contains(Names, name) && slices.ContainsFunc(Names, func(n string) bool { return p.count[n] > 0 })
}

// Run runs the services. A connection that is closed for good ends it: its
// service can do nothing any more, and only a new process helps.
func (p *Pipeline) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, c := range p.neededConnections() {
		go func() {
			select {
			case <-ctx.Done():
			case <-c.Closed():
				if p.needs(c) {
					cancel(c.Live())
				}
			}
		}()
	}
	err := p.started().Run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, bus.ErrClosed) {
		return errors.Join(cause, err)
	}
	return err
}

// Stop drains the services, releases what those have that never started, and disconnects.
func (p *Pipeline) Stop(ctx context.Context) error {
	p.beginEnding()
	group, began, log := p.gather(), time.Now(), slog.New(slog.DiscardHandler)
	if p.node != nil && group.Running() {
		log = p.node.Shared.Logger
		log.Info("draining: what is under way is finished or handed over", "replicas", len(p.made), "within", p.node.drain())
	}
	err := group.Stop(ctx)
	if err == nil {
		log.Info("drained", "after", time.Since(began).Round(time.Millisecond))
	}
	p.drains.Wait() // what they wait for has been stopped
	p.tellGone(err)
	p.closeLoads(ctx)
	for _, c := range p.Connections() {
		c.Close()
	}
	return err
}

// Connections are those of the services, in the order of starting.
func (p *Pipeline) Connections() []*bus.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

func (p *Pipeline) neededConnections() []*bus.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.needed)
}

func (p *Pipeline) started() *lifecycle.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group
}

// Ready says why no token can flow, replica by replica.
func (p *Pipeline) Ready() error {
	p.mu.Lock()
	group := p.group
	p.mu.Unlock()
	strays, storing := p.strays(), p.storing() // each replica would say the same
	switch {
	case strays != nil:
		return strays
	case storing != nil:
		return storing
	case group != nil:
		return group.Ready()
	}
	return p.connecting()
}

// storing returns nil, or why the server of this process cannot store anything.
func (p *Pipeline) storing() error {
	if p.node == nil {
		return nil
	}
	if own, tells := p.node.inProcess.(lifecycle.Readier); tells {
		return own.Ready()
	}
	return nil
}

// connecting says what the services wait for that are not all connected yet.
func (p *Pipeline) connecting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making == "" {
		return errors.New("starting")
	}
	if len(p.conns) == 0 {
		return fmt.Errorf("%s: no NATS server has answered at %s for %v", p.making, p.node.Bus.URL, p.waiting())
	}
	err := p.conns[len(p.conns)-1].Ready()
	if err == nil {
		err = fmt.Errorf("making streams and buckets for %v", p.waiting())
	}
	return fmt.Errorf("%s: %w", p.making, err)
}

func (p *Pipeline) waiting() time.Duration { return time.Since(p.began).Round(100 * time.Millisecond) }

// Live says what only a new process can help.
func (p *Pipeline) Live() error {
	var errs []error
	for _, c := range p.neededConnections() {
		errs = append(errs, c.Live())
	}
	if group := p.started(); group != nil {
		errs = append(errs, group.Live())
	}
	return errors.Join(errs...)
}
