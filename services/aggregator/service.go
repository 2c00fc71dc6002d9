package aggregator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one aggregator replica.
type Service struct {
	d        *deployment.Deployment
	id       string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	partials *bus.Receiving
	stop     context.CancelFunc // ends the view
	gathers  *gathers

	late   wire.Lateness
	mu     sync.Mutex
	groups *groups
	sum    []float32
	last   time.Time // of the newest partial
}

const (
	// inFlight is generous: a partial that waits here delays its group. It bounds what acked hops bring.
	inFlight = 64
	// groupAge is how long an incomplete group is kept; attention has issued it again long before.
	groupAge    = 20 * time.Second
	expireEvery = 5 * time.Second
)

// New returns a replica that is not started.
func New(d *deployment.Deployment) *Service {
	id := d.ReplicaID("aggregator")
	presence := d.NewPresence(id, "aggregator")
	presence.RowSums = true
	tracer := d.Telemetry.Tracer("aggregator", id)
	return &Service{
		d: d, id: id, presence: presence, groups: newGroups(d.Shape, groupsLimit(d)), late: wire.Lateness{Shape: d.Shape},
		tracer: tracer, metrics: d.Telemetry.Metrics, gathers: newGathers(d.Rows(tracer)),
	}
}

// minGroups is the least memory for groups that are not whole yet.
const minGroups = 256 << 20

// groupsLimit leaves room for some groups of the largest size.
func groupsLimit(d *deployment.Deployment) int {
	largest := 4 * d.Shape.MaxRows() * d.Shape.TopK * d.Shape.Hidden
	return max(minGroups, 4*largest)
}

// Name returns the replica's id.
func (s *Service) Name() string { return s.id }

// Start begins to receive.
func (s *Service) Start(ctx context.Context) (err error) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if _, err := s.presence.Watch(watching); err != nil {
		return err
	}
	s.partials, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Partial(), Name: s.id, Subject: s.d.Subjects.Partial(s.id), MaxInFlight: inFlight, Sole: true,
	}, s.receive)
	if err != nil {
		return fmt.Errorf("receiving partials: %w", err)
	}
	s.presence.SetReady(true)
	return nil
}

// Ready reports whether partials can reach this replica.
func (s *Service) Ready() error { return s.presence.Reachable() }

// Run announces the replica and forgets old groups until ctx ends and what was
// begun is finished.
func (s *Service) Run(ctx context.Context) error {
	tasks := lifecycle.Leaving(ctx, nil, s.finish)
	tasks.Go(s.expire)
	return tasks.Run(s.presence.Announce)
}

const (
	// finishWithin bounds the wait for groups under way; attention issues those
	// again that were not finished.
	finishWithin = 3 * time.Second
	finishPoll   = 20 * time.Millisecond
	// quietFor is longer than rows are under way before their first partial is here.
	quietFor = 300 * time.Millisecond
)

// finish says that this replica is leaving, so that no new groups come, and
// waits for those that are under way.
func (s *Service) finish(ctx context.Context) {
	s.presence.Drain()
	ctx, cancel := context.WithTimeout(ctx, finishWithin)
	defer cancel()
	for !s.quiet(time.Now()) && pause.For(ctx, finishPoll) == nil {
	}
}

func (s *Service) quiet(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.groups.open) == 0 && now.Sub(s.last) > quietFor
}

func (s *Service) expire(ctx context.Context) {
	tick := time.NewTicker(expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			s.mu.Lock()
			n := s.groups.expire(now, groupAge)
			s.mu.Unlock()
			s.presence.Add("groups_expired", float64(n))
		}
	}
}

// Stop finishes what has arrived.
func (s *Service) Stop(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	defer s.stop()
	if s.partials == nil {
		return nil
	}
	err := s.partials.Drain(ctx)
	s.gathers.end(ctx)
	return err
}

// receive handles one partial.
func (s *Service) receive(ctx context.Context, m *bus.Msg) error {
	p := &pb.Partial{}
	// What groups keep of a partial is what is counted of it, so nothing unknown.
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.Data, p); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding a partial: %w", wire.ErrMalformed, err))
	}
	if err := s.late.Check(p.Key, m.Arrived, time.Now()); err != nil {
		return err
	}
	if len(p.Parcel.GetPieces()) > 0 {
		return s.gather(ctx, p)
	}
	return s.take(ctx, p)
}

// take takes in a partial that has its rows, and sends the block of a group that it makes whole.
func (s *Service) take(ctx context.Context, p *pb.Partial) error {
	block, err := s.add(p)
	if err != nil {
		s.metrics.Refused.Inc()
		return bus.Poison(err)
	}
	if block == nil {
		return nil
	}
	ctx, span := s.tracer.Child(ctx, telemetry.SpanAggregate, telemetry.Layer(p.Key.Layer), telemetry.Attempt(p.Key.Attempt))
	defer span.End()
	return wire.SendBlock(ctx, s.d.Hop, s.d.Subjects, block)
}

// add takes a partial in and returns the block if its group is done.
func (s *Service) add(p *pb.Partial) (*pb.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	g, what, err := s.groups.add(p, s.last)
	if err != nil || what == waiting {
		return nil, err
	}
	if what == repeated {
		s.repeat(p)
		return nil, nil
	}
	if g.stored {
		s.gathers.forget(p.Key)
	}
	s.sum = s.groups.sum(g, s.sum)
	gate, fates, functions, took, wait := g.gate, g.fates, slices.Clone(g.functions), slices.Clone(g.took), s.last.Sub(g.began)
	s.groups.release(g)
	s.presence.Add("groups_total", 1)
	// The tensor is encoded into a buffer of its own: it is sent after the lock is gone.
	return &pb.Block{
		Key: p.Key, Tensor: tensor.Encode(s.d.Wire, s.sum, s.d.Model.Spec.Hidden, nil),
		Gate: gate, Functions: functions, WaitNs: uint64(max(0, wait)), Fates: fates, ByteSeconds: took,
	}, nil
}
