package expert

import (
	"context"

	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// network is how a host's functions reach the gates and the other hosts.
type network interface {
	// join begins to take a function's rows, so many messages at a time.
	join(ctx context.Context, f *function, inFlight int, h bus.Handler) (group, error)
	// remove removes a function's consumer group, which nobody is in any more.
	remove(ctx context.Context, f *function) error
	// announce says what this host's functions of a layer do. It waits for nothing.
	announce(r *pb.HostLayer)
	// Acknowledged is the plan of a layer that a gate uses.
	Acknowledged(gate string, layer int) uint64
	// Replicas are the hosts that have announced a function.
	Replicas(layer int, function string) []functions.Replica
}

// group is a consumer group that a host is in.
type group interface {
	// Drain leaves it, and finishes what was taken from it.
	Drain(ctx context.Context) error
	// Waiting is how many messages were taken from it and not begun.
	Waiting() int
}

// onBus is the network of a deployment.
type onBus struct {
	*functions.View
	d         *deployment.Deployment
	announcer *functions.Announcer
}

func (n onBus) join(ctx context.Context, f *function, inFlight int, h bus.Handler) (group, error) {
	r := n.d.FunctionGroup(f.layer, f.spec.Id)
	r.MaxInFlight = inFlight
	receiving, err := n.d.Hop.Receive(ctx, r, h)
	if err != nil {
		return nil, err
	}
	return receiving, nil
}

func (n onBus) remove(ctx context.Context, f *function) error {
	if n.d.Streams.Hops == schemas.HopsCore {
		return nil
	}
	return n.d.Conn.DeleteConsumer(ctx, n.d.Streams.Expert(f.layer).Name, f.spec.Id)
}

func (n onBus) announce(r *pb.HostLayer) {
	_ = n.announcer.Set(functions.HostKey(int(r.Layer), r.Host), r) // numbers and checked names can be encoded
}
