package layer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Settings are what one replica calls layers with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
}

// Layer is the routed experts of a model's layers behind messages.
type Layer struct {
	Peers    *Peers
	Exchange *Exchange

	d        *deployment.Deployment
	silences uint64 // of peers; See alone uses it
}

// New returns a layer that knows no peers yet.
func New(s Settings) *Layer {
	d, peers := s.Deployment, &Peers{}
	return &Layer{d: d, Peers: peers, Exchange: newExchange(wiring{
		subjects: d.Subjects, identity: d.Identity, owner: s.Replica, epoch: rand.Uint64(),
		shape: shape{hidden: d.Model.Spec.Hidden, slots: d.Model.Spec.TopK, experts: d.Model.Spec.Experts, layers: d.MoELayers(), wire: d.Wire},
		hop:   d.Hop, conn: d.Conn, allRows: d.Streams.AllRows, to: peers,
		counts: &counts{metrics: d.Telemetry.Metrics, presence: s.Presence}, each: d.Steps != nil,
	})}
}

// Begin has the members of a view be the peers. It comes before the first step.
func (l *Layer) Begin(v *members.View) {
	l.Peers.gateRoster, l.Peers.aggregatorRoster, l.Peers.expertRoster = v.Roster("gate"), v.Roster("aggregator"), v.Roster("expert")
}

// OnBlock takes in a message with a block. Its error is bus.Poison where the message is none.
func (l *Layer) OnBlock(_ context.Context, m *bus.Msg) error {
	b := &pb.Block{}
	if err := proto.Unmarshal(m.Data, b); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding a block: %w", wire.ErrMalformed, err))
	}
	if err := l.Exchange.receive(b); err != nil {
		l.Exchange.counts.metrics.Refused.Inc()
		return bus.Poison(err)
	}
	return nil
}

// StepTime is how long a step of one row may take before the last of its layers is late.
func (l *Layer) StepTime() time.Duration { return l.Exchange.latency.step(l.Exchange.shape.layers) }
