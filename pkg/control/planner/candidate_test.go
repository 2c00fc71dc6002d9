package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// turning is an elastic policy that puts all experts on another host at each news.
type turning struct{ candidate }

// Begin implements Elastic.
func (c turning) Begin() { c.say("%s forgets", c.id) }

// Hear implements Elastic.
func (c turning) Hear(ctx context.Context) {
	<-ctx.Done()
	c.say("%s hears no more", c.id)
}

// Plan implements Elastic.
func (c turning) Plan(k plan.Known) (*plan.Decision, error) {
	c.mu.Lock()
	turn := c.turn
	c.mu.Unlock()
	return &plan.Decision{Layers: []*pb.LayerPlan{{
		Layer: 1, Reason: fmt.Sprintf("turn %d, grouping %s", turn, k.Settings.Grouping),
		Functions: []*pb.Function{plan.Function(1, []uint32{0, 1, 2, 3}, k.Hosts[turn%len(k.Hosts)].ID)},
	}}}, nil
}

// News implements Elastic.
func (c turning) News() <-chan struct{} { return c.news.wait() }

// Written implements Elastic.
func (c turning) Written(layers []*plan.Layer) { c.say("%s has written %d layers", c.id, len(layers)) }

// candidate is one planner's side of the world.
type candidate struct {
	*world
	id string
}

// SetCalling implements Caller.
func (c candidate) SetCalling(calling bool) {
	if calling {
		c.say("%s begins to call", c.id)
	} else {
		c.say("%s ends calling", c.id)
	}
}

// Call implements Caller.
func (c candidate) Call() { c.say("%s calls", c.id) }

// Add implements Caller.
func (c candidate) Add(name string, n float64) { c.say("%s counts %s %v", c.id, name, n) }

// logged is where a candidate logs.
type logged struct{ candidate }

// Write implements io.Writer.
func (c logged) Write(line []byte) (int, error) {
	c.say("%s logs %s", c.id, strings.TrimSpace(string(line)))
	return len(line), nil
}

// Hold implements Lease, as lease.Hold does: a lease that is lost is wanted again.
func (c candidate) Hold(ctx context.Context, fn func(context.Context, planstore.Writer) error) error {
	if err := c.fault("lease"); err != nil {
		return err
	}
	for {
		tenure, epoch, err := c.acquire(ctx)
		if err != nil {
			return err
		}
		err = fn(tenure, planstore.Writer{Epoch: epoch})
		lost := errors.Is(context.Cause(tenure), lease.ErrLost)
		c.release(lost)
		if !lost || ctx.Err() != nil {
			return err
		}
		_ = pause.For(ctx, lease.TTL) // others are first
	}
}

func (c candidate) acquire(ctx context.Context) (context.Context, uint64, error) {
	for {
		freed := c.freed.wait()
		c.mu.Lock()
		if c.holder == "" && ctx.Err() == nil {
			tenure, cancel := context.WithCancelCause(ctx)
			c.holder, c.lose = c.id, func() { cancel(lease.ErrLost) }
			c.epoch++
			defer c.say("%s holds the lease", c.id)
			defer c.mu.Unlock()
			return tenure, c.epoch, nil
		}
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-freed:
		}
	}
}

func (c candidate) release(lost bool) {
	c.mu.Lock()
	c.holder = ""
	c.lose()
	c.mu.Unlock()
	if lost {
		c.say("%s has lost the lease", c.id)
	} else {
		c.say("%s gives the lease back", c.id)
	}
	c.freed.fire()
}
