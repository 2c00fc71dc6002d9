package gate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/transfer"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one gate replica.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics
	gates    forward.Gates
	gpu      gpus.Gates // the same; or nil
	view     *members.View
	ctx      context.Context // of what Start began, until Stop
	stop     context.CancelFunc
	hidden   *shared        // rows for any gate
	own      *bus.Receiving // rows for this one
	plan     *planSwitch
	states   *planstore.FunctionView
	acks     *planstore.Announcer
	acking   sync.Mutex // of acknowledge
	loads    *loadMeter
	slow     *slowHosts
	rows     *transfer.Link
	stores   stores

	late      wire.Lateness
	mu        sync.Mutex
	routes    forward.Routes
	obeys     directives
	split     *splitter
	divide    *division
	homes     *homing
	rented    renting
	said      foretelling
	addresses addresses
	traces    planTraces
	x         []float32
}

// inFlight bounds the hidden messages that a replica holds: of those for any gate, and with acked hops of those that are
// sent to it by name.
const inFlight = 64

// New returns a replica that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("gate")
	s := &Service{
		d: d, config: c, id: id, presence: d.NewPresence(id, "gate"), split: newSplitter(d.Model.Spec.Hidden), divide: newDivision(), homes: newHoming(), traces: planTraces{}, late: wire.Lateness{Shape: d.Shape},
		tracer: d.Telemetry.Tracer("gate", id), metrics: d.Telemetry.Metrics, loads: newLoadMeter(d, id),
		slow: newSlowHosts(d.Logger, d.Telemetry.Metrics.Hosts), said: foretelling{metrics: d.Telemetry.Metrics.Foretold},
	}
	if c.Payload > 0 {
		s.rented.most = max(1, int(c.Payload/float64(d.Shape.Hidden*d.Wire.ElementBytes())))
	}
	s.rows, s.stores = d.Rows(s.tracer), stores{d: d, places: make(chan struct{}, storesAtOnce), all: &sync.WaitGroup{}, mu: &sync.Mutex{}, said: &pause.ErrorLog{}}
	s.hidden = &shared{receive: s.receiveAny, log: d.Logger}
	return s
}

// Name returns the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads the gates' weights and begins to receive.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := s.load(ctx); err != nil {
		return err
	}
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	if s.states, err = planstore.NewFunctionView(s.d.Functions, s.d.FunctionRules()); err != nil {
		return err
	}
	if s.acks, err = planstore.NewAnnouncer(s.d.Functions); err != nil {
		return err
	}
	s.acks.Rest = planstore.GateRests
	s.plan = newPlanSwitch(s.d.MoELayers(), s.states)
	s.presence.Trouble = s.plan.ready
	s.addresses = addresses{subjects: s.d.Subjects, hosts: s.view.Roster("expert"), slow: s.slow.now}
	return s.listen(ctx)
}

func (s *Service) listen(ctx context.Context) (err error) {
	s.own, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Gate(), Name: s.id, Subject: s.d.Subjects.Gate(s.id), MaxInFlight: inFlight, Sole: true,
	}, s.receive)
	if err != nil {
		return fmt.Errorf("receiving this gate's hidden rows: %w", err)
	}
	if err := s.hidden.take(ctx); err != nil {
		return fmt.Errorf("receiving hidden rows: %w", err)
	}
	return nil
}

func (s *Service) receiveAny(ctx context.Context) (*bus.Receiving, error) {
	return s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Hidden(), Name: "gate", Subject: s.d.Subjects.AnyHidden(), MaxInFlight: inFlight,
	}, s.receive)
}

// Run follows plans, functions and members until ctx ends, or the gate has lost its GPU.
func (s *Service) Run(ctx context.Context) error {
	tasks := lifecycle.Serving(ctx)
	// The gates on a GPU are lost with it.
	defer s.config.GPU.Follow(ctx, s.d.Logger, s.metrics.GPUs, func(why error) { s.gpu.Lose(why) })()
	tasks.Go(func(ctx context.Context) { _ = s.followPlan(ctx) }) // it fails without a bucket only, which Start needed
	tasks.Go(s.followStates)
	tasks.Go(s.followMembers)
	tasks.Needs(s.acks.Run)
	tasks.Go(s.loads.run)
	tasks.Go(func(ctx context.Context) { s.slow.run(ctx, s.view) })
	tasks.Go(func(ctx context.Context) {
		s.hidden.follow(ctx, func() bool { return leaves(s.view.Snapshot(), s.id) })
	})
	tasks.Last(s.awaitLoss)
	return errors.Join(tasks.Run(s.presence.Announce), s.lostGPU())
}

// Stop finishes what has arrived.
func (s *Service) Stop(ctx context.Context) error {
	if s.gpu != nil {
		defer s.gpu.Close()
	}
	if s.stop == nil {
		return s.obeys.set.Close()
	}
	defer s.stop()
	err := s.hidden.leave(ctx)
	if s.own != nil {
		err = errors.Join(err, s.own.Drain(ctx))
	}
	s.stores.end()
	return errors.Join(err, s.obeys.set.Close())
}

// Ready reports whether rows can be routed.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.plan.ready()
}

// receive routes the rows of one message.
func (s *Service) receive(ctx context.Context, m *bus.Msg) error {
	watch := ledger.StartAt(m.Arrived)
	took := &pb.GateTime{QueueNs: watch.Lap()}
	h, err := s.read(m)
	if err != nil {
		return err
	}
	ctx, span := s.tracer.Child(ctx, telemetry.SpanGate, telemetry.Layer(h.GetKey().GetLayer()), telemetry.Attempt(h.GetKey().GetAttempt()))
	defer span.End()
	took.ComputeNs = watch.Lap()
	s.mu.Lock()
	defer s.mu.Unlock()
	took.QueueNs += watch.Lap()
	if err := s.route(h); err != nil {
		return s.unrouted(ctx, h, err)
	}
	planned := s.plan.in(int(h.Key.Layer))
	if planned == nil {
		return fmt.Errorf("layer %d has no plan yet", h.Key.Layer)
	}
	s.addresses.look(h.Key)
	o, err := s.obey(h, planned)
	if err != nil {
		return s.disobey(ctx, h, err)
	}
	all := s.portions(h, o, planned)
	markPrefill(h.Phases, s.routes.K, all)
	s.traces.describe(span, int(h.Key.Layer), planned, len(all))
	took.ComputeNs, took.Accesses = took.ComputeNs+watch.Lap(), o.curve
	err = s.dispatch(ctx, h, all, took, o.fates)
	s.loads.count(h, &s.routes, o, planned.Version)
	s.said.compare(h, &s.routes, planned)
	s.presence.Add(members.RoutedRows, float64(len(s.routes.Expert)/max(1, s.routes.K))) // when its rows are on their way
	return err
}

// read decodes a message of hidden rows, and refuses late ones.
func (s *Service) read(m *bus.Msg) (*pb.Hidden, error) {
	h := &pb.Hidden{}
	if err := proto.Unmarshal(m.Data, h); err != nil {
		return nil, bus.Poison(fmt.Errorf("%w: decoding hidden rows: %w", wire.ErrMalformed, err))
	}
	return h, s.late.Check(h.Key, m.Arrived, time.Now())
}

// unrouted answers for rows that could not be routed. A device's error is none of the rows: their
// sender sends them again, or another gate has them.
func (s *Service) unrouted(ctx context.Context, h *pb.Hidden, why error) error {
	why = fmt.Errorf("%s: %w", s.id, why)
	if ofDevice(why) {
		return why
	}
	s.metrics.Refused.Inc()
	return wire.Refuse(ctx, s.d.Hop, s.d.Subjects, h.Key, why)
}

// obey returns what becomes of the routed rows by the message's directives.
func (s *Service) obey(h *pb.Hidden, planned *plan.Routes) (obeyed, error) {
	o, err := s.obeys.obey(h, &s.routes, planned, s.d.Model.Spec.Experts)
	if err != nil {
		return o, err
	}
	if s.config.Fates != nil {
		if told := s.config.Fates(h); told != nil {
			o.fates = told
		}
	}
	o.count(s.metrics.Brownout)
	return o, nil
}

// portions splits the rows of a message by the replicas that compute them. A function's rows go to
// its group, in a message for each warm replica, where the free host takes each. They go to hosts by
// name by the first of these that has a say: its replicas are rented (renting), it has a home among
// hosts that offload (homing), the layer's plan has a division (division), or a host may hang, is
// slow or lost them before (addresses).
func (s *Service) portions(h *pb.Hidden, o obeyed, planned *plan.Routes) []outgoing {
	s.split.bundle, s.divide.bundle, s.split.decision = o.bundle, o.bundle, wire.HashFates(o.fates)
	a := &s.addresses
	ways := s.rented.ways(h, a, planned, o.routes, s.homes.ways(a, planned, s.divide.ways(a, planned, o.routes)))
	all := s.split.split(h, o.routes, planned, ways)
	s.metrics.Rented.Splits.Add(float64(s.split.cuts))
	return all
}

// dispatch sends the rows that route has routed. If nobody is to compute any, it
// answers itself: a gate may send blocks anyway, and the rows need no aggregator.
func (s *Service) dispatch(ctx context.Context, h *pb.Hidden, all []outgoing, took *pb.GateTime, of *pb.Fates) error {
	if len(all) == 0 {
		block := zeros(s.d.Wire, h.Key, s.d.Shape.Hidden)
		block.Gate, block.Fates = took, of
		return wire.SendBlock(ctx, s.d.Hop, s.d.Subjects, block)
	}
	all[0].Gate, all[0].Fates = took, of
	for _, out := range all {
		to := transfer.Address{Subject: s.addresses.address(out), Function: out.function, Replica: out.replica}
		by := s.rows.By(out.mode, out.minibatch)
		if out.mode == plan.Pipelined || out.mode == plan.Indirect {
			s.stores.begin(ctx, by, to, out.Dispatch)
			continue
		}
		if err := by.Scatter(ctx, to, out.Dispatch); err != nil {
			return fmt.Errorf("dispatching to function %s of layer %d: %w", out.function, h.Key.Layer, err)
		}
	}
	return nil
}

// disobey answers for rows whose directives cannot be followed: what they need may be on its way,
// or no gate can follow them.
func (s *Service) disobey(ctx context.Context, h *pb.Hidden, why error) error {
	why = fmt.Errorf("%s: layer %d: %w", s.id, h.Key.Layer, why)
	if errors.Is(why, errCold) {
		s.metrics.Brownout.Waits.Inc()
		return wire.Decline(ctx, s.d.Hop, s.d.Subjects, h.Key, why)
	}
	s.metrics.Refused.Inc()
	return wire.Refuse(ctx, s.d.Hop, s.d.Subjects, h.Key, why)
}

func (s *Service) route(h *pb.Hidden) (err error) {
	if s.x, err = decode(s.d.Shape, h, s.x); err != nil {
		return err
	}
	return s.gates.Route(int(h.Key.Layer), s.x, &s.routes)
}

// load brings the gates' weights to what computes with them.
func (s *Service) load(ctx context.Context) error {
	return s.d.LoadWeights(ctx, "loading the gates", func(m *model.Model) (err error) {
		if s.config.United != "" {
			if s.obeys.set, err = united.OpenAll(s.config.United, m); err != nil {
				return fmt.Errorf("--united: %w", err)
			}
		}
		if s.config.GPU != nil {
			return s.loadOnGPU(ctx, m)
		}
		s.gates, err = forward.LoadRouter(m, s.d.Pool)
		return err
	})
}

func (s *Service) loadOnGPU(ctx context.Context, m *model.Model) error {
	on, err := s.config.GPU.Gates(ctx, m)
	if err != nil {
		return err
	}
	s.gates, s.gpu = on, on
	s.presence.Fill = func(stats map[string]float64) { maps.Copy(stats, s.config.GPU.Figures()) }
	return nil
}

// awaitLoss returns when the GPU is lost, or ctx ends.
func (s *Service) awaitLoss(ctx context.Context) {
	var lost <-chan struct{}
	if s.gpu != nil {
		lost = s.gpu.Failed()
	}
	select {
	case <-ctx.Done():
	case <-lost:
	}
}

// lostGPU is why the gate leaves, if that is its GPU.
func (s *Service) lostGPU() error {
	if s.gpu == nil || s.gpu.Err() == nil {
		return nil
	}
	return &gpus.Error{Err: fmt.Errorf("the gate's GPU %s: %w", s.config.GPU.Info.Name, s.gpu.Err())}
}

func ofDevice(err error) bool {
	var device *forward.DeviceError
	return errors.As(err, &device)
}
