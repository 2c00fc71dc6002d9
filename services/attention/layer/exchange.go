package layer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// hop is bus.Hop's part that publishing tensors needs.
type hop interface {
	Send(ctx context.Context, subject string, m proto.Message) error
}

// conn is bus.Conn's part that announcing steps needs.
type conn interface {
	Send(ctx context.Context, subject string, m proto.Message, header nats.Header) error
	MaxPayload() int64
	Hears() bool
}

// addresses names which of the peers rows go to; Peers does.
type addresses interface {
	// aggregatorFor names a live aggregator: each in its turn, and another one for
	// another attempt, if there is one; and reports whether it takes sums of whole rows.
	aggregatorFor(turn uint64, attempt uint32) (id string, rowSums, ok bool)
	// gate names a live gate, or none while any gate may have the rows.
	gate(turn uint64, attempt uint32) string
	// absent says which stage behind has nobody who could take rows; nil: each has somebody.
	absent() error
	// troubled says that functions of the plan are nowhere; empty: they are somewhere.
	troubled() string
	// suspect says that an aggregator or a gate may be gone: others are preferred for a while.
	suspect(ids ...string)
}

// wiring is what an exchange is made of.
type wiring struct {
	subjects schemas.Subjects
	identity wire.Identity
	owner    string
	epoch    uint64
	shape    shape
	hop      hop
	conn     conn
	allRows  bool // a predictor sees all rows
	to       addresses
	counts   *counts
	each     bool // it is to be known of each dispatch
}

// Exchange is what the workers of a replica share: where blocks are awaited.
type Exchange struct {
	wiring
	next    atomic.Uint64
	latency *latency
	waking  waking

	mu      sync.Mutex
	waiters map[uint64]*Remote // by step
}

func newExchange(w wiring) *Exchange {
	return &Exchange{wiring: w, latency: newLatency(), waiters: map[uint64]*Remote{}}
}

// enlist has the blocks of a step come to who waits for them.
func (x *Exchange) enlist(step uint64, w *Remote) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waiters[step] = w
}

// delist has them come to it no longer.
func (x *Exchange) delist(step uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.waiters, step)
}

// receive takes a block in. Repeats and blocks nobody waits for change nothing.
func (x *Exchange) receive(b *pb.Block) error {
	if err := x.identity.CheckBlockKey(b.Key); err != nil {
		return err
	}
	if b.Key.Epoch != x.epoch {
		return nil // meant for an earlier life of this replica
	}
	x.mu.Lock()
	w := x.waiters[b.Key.Step]
	x.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.take(b)
}

// hurryAll lets all workers issue again what may be lost: a replica that may have it
// has fallen silent, or was replaced.
func (x *Exchange) hurryAll() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, w := range x.waiters {
		w.hurry()
	}
}

// announce publishes a step's rows on core NATS, for whoever listens.
func (x *Exchange) announce(ctx context.Context, step *pb.Step) error {
	if x.allRows {
		_ = x.conn.Send(ctx, x.subjects.RowsStep(), step, nil) // as copyRows
	}
	return x.conn.Send(ctx, x.subjects.Step(), step, nil)
}

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
