package expert

import (
	"context"

	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/residency"
	"github.com/switchyard/switchyard/services/expert/serving"
)

// onBus is the residency.Network of a deployment, whose rows are served.
type onBus struct {
	*planstore.FunctionView
	d         *deployment.Deployment
	announcer *planstore.Announcer
	serving   *serving.Serving
}

// Join receives from the function's consumer group.
func (n onBus) Join(ctx context.Context, f *residency.Function, inFlight int) (residency.Group, error) {
	r := n.d.FunctionGroup(f.Layer(), f.ID())
	r.MaxInFlight = inFlight
	receiving, err := n.d.Hop.Receive(ctx, r, func(ctx context.Context, m *bus.Msg) error { return n.serving.Receive(ctx, m, f) })
	if err != nil {
		return nil, err
	}
	return receiving, nil
}

// Remove deletes the group's consumer, where it has one.
func (n onBus) Remove(ctx context.Context, f *residency.Function) error {
	if n.d.Streams.Hops == schemas.HopsCore {
		return nil
	}
	return n.d.Conn.DeleteConsumer(ctx, n.d.Streams.Expert(f.Layer()).Name, f.ID())
}

// Announce writes the functions' states into their bucket.
func (n onBus) Announce(r *pb.HostLayer) {
	say := n.announcer.Set
	if len(r.Functions) == 0 {
		say = n.announcer.End
	}
	_ = say(planstore.HostKey(int(r.Layer), r.Host), r) // numbers and checked names can be encoded
}
