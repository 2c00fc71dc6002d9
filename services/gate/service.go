package gate

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/bus"
	"github.com/switchyard/switchyard/pkg/deployment"
	"github.com/switchyard/switchyard/pkg/forward"
	"github.com/switchyard/switchyard/pkg/members"
	"github.com/switchyard/switchyard/pkg/telemetry"
	"github.com/switchyard/switchyard/pkg/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one gate replica.
type Service struct {
	d        *deployment.Deployment
	id       string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	router   *forward.Router
	view     *members.View
	ctx      context.Context // of what Start began, until Stop
	stop     context.CancelFunc
	hidden   *bus.Receiving
	plan     planSwitch

	mu     sync.Mutex
	routes forward.Routes
	split  *splitter
	x      []float32
}

// inFlight bounds the hidden messages that a replica holds.
const inFlight = 64

// New returns a replica that is not started.
func New(d *deployment.Deployment) *Service {
	id := deployment.NewID("gate")
	return &Service{
		d: d, id: id, presence: d.NewPresence(id, "gate"), split: newSplitter(d.Model.Spec.Hidden),
		tracer: d.Telemetry.Tracer("gate"), metrics: d.Telemetry.Metrics,
	}
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads the gates' weights and begins to receive.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := s.d.CheckPeers(ctx); err != nil {
		return err
	}
	if s.router, err = forward.LoadRouter(s.d.Model, s.d.Pool); err != nil {
		return fmt.Errorf("loading the gates: %w", err)
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	if s.view, err = members.Watch(own, s.d.Members); err != nil {
		return fmt.Errorf("watching the members: %w", err)
	}
	s.hidden, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Hidden(), Name: "gate", Subject: s.d.Subjects.AnyHidden(), MaxInFlight: inFlight,
	}, s.receive)
	if err != nil {
		return fmt.Errorf("receiving hidden rows: %w", err)
	}
	return nil
}

// Run follows plan and members until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { s.followPlan(ctx) })
	tasks.Go(func() { s.followMembers(ctx) })
	return s.presence.Announce(ctx)
}

// Stop finishes what has arrived.
func (s *Service) Stop(ctx context.Context) error {
	if s.hidden == nil {
		return nil
	}
	defer s.stop()
	return s.hidden.Drain(ctx)
}

// Ready says whether rows can be routed.
func (s *Service) Ready() error {
	if s.plan.current() == nil {
		return fmt.Errorf("no plan whose functions are all warm")
	}
	return nil
}

// receive routes the rows of one message.
func (s *Service) receive(ctx context.Context, m *bus.Msg) error {
	h := &pb.Hidden{}
	if err := proto.Unmarshal(m.Data, h); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding hidden rows: %w", wire.ErrMalformed, err))
	}
	table := s.plan.current()
	if table == nil {
		return fmt.Errorf("layer %d: no plan is usable yet", h.GetKey().GetLayer())
	}
	ctx, span := s.tracer.Child(ctx, telemetry.SpanGate, telemetry.Layer(h.GetKey().GetLayer()), telemetry.Attempt(h.GetKey().GetAttempt()))
	defer span.End()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.route(h); err != nil {
		s.metrics.Strangers.Inc()
		return s.d.Refuse(ctx, h.Key, err)
	}
	for _, d := range s.split.split(h, &s.routes, table.Layer(int(h.Key.Layer)), s.plan.warmReplicas) {
		if err := s.d.Hop.Send(ctx, s.d.Subjects.Expert(int(h.Key.Layer), d.Function), d); err != nil {
			return fmt.Errorf("dispatching to function %s of layer %d: %w", d.Function, h.Key.Layer, err)
		}
	}
	return nil
}

func (s *Service) route(h *pb.Hidden) (err error) {
	if s.x, err = decode(s.d.Shape, h, s.x); err != nil {
		return err
	}
	return s.router.Route(int(h.Key.Layer), s.x, &s.routes)
}
