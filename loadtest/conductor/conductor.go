// Package conductor plans in a scaler's place: measurements and tests write the
// plans that they want, and see when all gates use them.
package conductor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// poll is how often what is waited for is looked at.
const poll = 2 * time.Millisecond

// Conductor is a scaler to the others.
type Conductor struct {
	*deployment.Deployment
	// States are what hosts say that they do with functions, and gates with plans.
	States *planstore.FunctionView
	conn   *bus.Conn
	view   *members.View
	by     planstore.Writer
	plans  planstore.State
	stop   context.CancelFunc
	tasks  sync.WaitGroup
}

// Begin takes the planner's lease over from the hosts.
func Begin(ctx context.Context, n *cluster.Node) (*Conductor, error) {
	r, err := n.Connect(ctx, "scaler")
	if err != nil {
		return nil, err
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Conductor{conn: r.Conn, stop: stop}
	if c.Deployment, err = n.Deploy(ctx, r); err == nil {
		err = c.begin(ctx, own)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

//nolint:contextcheck,nolintlint // what follows others has the conductor's own context
func (c *Conductor) begin(ctx, own context.Context) (err error) {
	id := c.ReplicaID("scaler")
	presence := c.NewPresence(id, "scaler")
	if c.view, err = presence.Watch(own); err != nil {
		return err
	}
	if c.States, err = planstore.NewFunctionView(c.Functions, c.FunctionRules()); err != nil {
		return err
	}
	presence.SetReady(true)
	held := make(chan planstore.Writer)
	c.tasks.Go(func() { _ = presence.Announce(own) }) // nobody misses it
	c.tasks.Go(func() { c.States.Follow(own, nil, func(planstore.FunctionChange) {}) })
	c.tasks.Go(func() {
		_ = planner.InBucket(c.Leases, id, lease.Options{}).Hold(own, func(tenure context.Context, by planstore.Writer) error {
			select {
			case held <- by:
			case <-tenure.Done():
			}
			<-tenure.Done()
			return nil
		})
	})
	select {
	case c.by = <-held:
	case <-ctx.Done():
		return fmt.Errorf("waiting for the planner's lease: %w", ctx.Err())
	}
	c.plans, err = c.Plans.Read(ctx)
	return err
}

// AwaitHosts returns the expert hosts when there are so many.
func (c *Conductor) AwaitHosts(ctx context.Context, n int) (ids []string, err error) {
	err = await(ctx, "the expert hosts", func() bool {
		ids = nil
		for _, m := range members.OfService(c.view.Snapshot(), "expert") {
			ids = append(ids, m.Id)
		}
		return len(ids) == n
	})
	slices.Sort(ids)
	return ids, err
}

// Write replaces the plans of layers. Each function of them is to be in some
// host's group.
func (c *Conductor) Write(ctx context.Context, layers ...*pb.LayerPlan) (err error) {
	c.plans, _, err = c.Plans.Write(ctx, c.plans, layers, c.by)
	return err
}

// AwaitInUse returns when every gate uses the newest plan of each layer.
func (c *Conductor) AwaitInUse(ctx context.Context) error { return await(ctx, "the gates", c.inUse) }

func await(ctx context.Context, what string, happened func() bool) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !happened() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

func (c *Conductor) inUse() bool {
	gates := members.OfService(c.view.Snapshot(), "gate")
	for layer, l := range c.plans.Layers() {
		if !c.States.UsedBy(gates, layer, l.Version) {
			return false
		}
	}
	return true
}

// Close gives the lease back.
func (c *Conductor) Close() {
	c.stop()
	c.tasks.Wait()
	c.conn.Close()
}
