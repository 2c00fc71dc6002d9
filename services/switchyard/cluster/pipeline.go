package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// pipeline is this process's services as one. It connects them when it is
// started: until then the process can be asked what it waits for.
type pipeline struct {
	node  *node
	make  makers
	count map[string]int

	mu     sync.Mutex
	began  time.Time
	making string // the service that is or was connected last; empty before
	conns  []*bus.Conn
	group  *lifecycle.Group // nil until all are connected
}

// Name is for errors and readiness.
func (p *pipeline) Name() string { return "services" }

// Start connects to NATS, for as long as that takes, and starts the services.
func (p *pipeline) Start(ctx context.Context) error {
	var services []lifecycle.Service
	for _, name := range serviceNames {
		for range p.count[name] {
			s, err := p.connect(ctx, name)
			if err != nil {
				return fmt.Errorf("preparing %s: %w", name, err)
			}
			services = append(services, s)
		}
	}
	group := lifecycle.NewGroup("services", services...)
	p.mu.Lock()
	p.group = group
	p.mu.Unlock()
	return group.Start(ctx)
}

func (p *pipeline) connect(ctx context.Context, name string) (lifecycle.Service, error) {
	p.mu.Lock()
	p.making, p.began = name, time.Now()
	p.mu.Unlock()
	conn, traffic, err := p.node.connect(ctx, name)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.conns = append(p.conns, conn)
	p.mu.Unlock()
	d, err := p.node.deploy(ctx, name, conn, traffic)
	if err != nil {
		return nil, err
	}
	return p.make.make(name, d), nil
}

// Run runs the services. A connection that is closed for good ends it: its
// service can do nothing any more, and only a new process helps.
func (p *pipeline) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, c := range p.connections() {
		go func() {
			select {
			case <-ctx.Done():
			case <-c.Closed():
				cancel(c.Live())
			}
		}()
	}
	err := p.started().Run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, bus.ErrClosed) {
		return errors.Join(cause, err)
	}
	return err
}

// Stop drains the services, as far as they have started, and disconnects.
func (p *pipeline) Stop(ctx context.Context) (err error) {
	if group := p.started(); group != nil {
		err = group.Stop(ctx)
	}
	for _, c := range p.connections() {
		c.Close()
	}
	return err
}

func (p *pipeline) connections() []*bus.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.conns)
}

func (p *pipeline) started() *lifecycle.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.group
}

// Ready says why no token can flow, replica by replica.
func (p *pipeline) Ready() error {
	if group := p.started(); group != nil {
		return group.Ready()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making == "" {
		return errors.New("starting")
	}
	if len(p.conns) == 0 {
		return fmt.Errorf("%s: no NATS server has answered at %s for %v", p.making, p.node.bus.URL, p.waiting())
	}
	err := p.conns[len(p.conns)-1].Ready()
	if err == nil {
		err = fmt.Errorf("making streams and buckets for %v", p.waiting())
	}
	return fmt.Errorf("%s: %w", p.making, err)
}

func (p *pipeline) waiting() time.Duration { return time.Since(p.began).Round(100 * time.Millisecond) }

// Live says what only a new process can help.
func (p *pipeline) Live() error {
	var errs []error
	for _, c := range p.connections() {
		errs = append(errs, c.Live())
	}
	if group := p.started(); group != nil {
		errs = append(errs, group.Live())
	}
	return errors.Join(errs...)
}
