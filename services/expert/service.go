package expert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/hints"
	"github.com/switchyard/switchyard/pkg/control/ledger"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one expert host.
type Service struct {
	d         *deployment.Deployment
	config    Config
	id        string
	presence  *deployment.Presence
	tracer    *telemetry.Tracer
	metrics   *telemetry.Metrics
	device    device.Device
	computers *computers
	late      wire.Lateness
	loads     *loads.Counter
	asks      *nats.Subscription // for totals of loads
	asked     atomic.Bool        // for them, since the last samples
	hints     *hints.Queue
	hintsSub  *nats.Subscription
	badHints  telemetry.Unrepeated
	view      *members.View
	own       *bus.Receiving  // rows for this host by name
	ctx       context.Context // of what Start began, until Stop
	stop      context.CancelFunc
	// expertBytes is what an expert takes at most.
	expertBytes uint64

	states    *functions.View
	announcer *functions.Announcer
	network   network
	keepers   sync.WaitGroup
	waiters   sync.WaitGroup // dispatches by name that wait for a function
	awaiting  chan struct{}  // one of each

	lined     atomic.Bool                 // there is a line
	mu        sync.Mutex                  // guards the rest and what functions say that it does
	functions map[string]*function        // by id, from when they are wanted until they are gone
	plans     map[int]*plan.Layer         // of each layer, the newest
	wanted    map[int]int                 // functions of each that it wants warm here
	adopted   int64                       // plans of layers so far
	said      map[int][]*pb.FunctionState // of each layer, what was announced
	line      []*function                 // they wait for room, in this order (offload.go)
	stopped   bool
	leaving   bool // nothing rests any more
	serves    bool
	serving   chan struct{} // closed when it does
	// coldStarts of functions, and the time that rows have waited for them.
	coldStarts uint64
	coldWait   time.Duration
	untold     func() // ends telling the metrics
}

// The dispatches of one function that a host holds at most. What it holds, its
// siblings do not get; without siblings it need not ask for more so often.
const (
	inFlightShared = 4
	inFlightAlone  = 32
	// ownAtOnce is how many of a host's functions compute at a time what came
	// to the host by name; usually nothing does.
	ownAtOnce = 4
)

// New returns a host that is not started. It fails with *gpus.Error.
func New(d *deployment.Deployment, c Config) (*Service, error) {
	on, err := c.device(d)
	if err != nil {
		return nil, err
	}
	return newOn(on, d, c), nil
}

func newOn(on device.Device, d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("expert")
	s := &Service{
		d: d, config: c, id: id, presence: d.NewPresence(id, "expert"), device: on,
		tracer: d.Telemetry.Tracer("expert", id), metrics: d.Telemetry.Metrics,
		loads:     loads.NewCounter(d.Identity.Model, id, d.Shape.MoE, d.Model.Spec.Experts),
		functions: map[string]*function{}, plans: map[int]*plan.Layer{}, wanted: map[int]int{}, said: map[int][]*pb.FunctionState{}, serving: make(chan struct{}),
		awaiting: make(chan struct{}, waitAtOnce), hints: hints.NewQueue(), late: wire.Lateness{Shape: d.Shape},
	}
	if n, err := device.Largest(d.Model.Spec, on.Size); err == nil {
		s.expertBytes = uint64(n)
	}
	s.computers = newComputers(func() *computer { return &computer{device: on, shape: d.Shape, wire: d.Wire} })
	if c.Offload == nil { // else it serves whatever it holds
		s.presence.SetBudget(uint64(on.Memory().Budget))
	}
	s.presence.Device, s.presence.ExpertBytes = on.Name(), s.expertBytes
	if c.Profile != nil {
		s.presence.Access = plan.Access(divide.TakesOf(c.Profile.Compute(), float64(s.expertBytes), 0))
	}
	s.presence.Fill, s.presence.Stuck, s.presence.Trouble = s.fill, s.stuck, s.cold
	return s
}

// Name is the host's id.
func (s *Service) Name() string { return s.id }

// Start joins the members; functions come with the plan.
func (s *Service) Start(ctx context.Context) (err error) {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	if s.states, err = functions.NewView(s.d.Functions, s.d.FunctionRules()); err != nil {
		return err
	}
	if s.announcer, err = functions.NewAnnouncer(s.d.Functions); err != nil {
		return err
	}
	s.untold = s.follow(s.metrics.Hosts)
	s.network = onBus{View: s.states, d: s.d, announcer: s.announcer}
	s.own, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Host(), Name: s.id, Subject: s.d.Subjects.Host(s.id), MaxInFlight: inFlightAlone, Concurrency: ownAtOnce, Private: true,
	}, func(ctx context.Context, m *bus.Msg) error { return s.receive(ctx, m, nil) })
	if err != nil {
		return fmt.Errorf("receiving this host's rows: %w", err)
	}
	return errors.Join(s.listenForAsks(), s.listenForHints())
}

// Run follows the plan, and runs a planner, until ctx ends and others have
// taken over.
func (s *Service) Run(ctx context.Context) error {
	serving, leave := context.WithCancelCause(context.WithoutCancel(ctx))
	defer s.followGPU(ctx)()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer leave(nil)                               // before the wait
	tasks.Go(func() { _ = s.followPlan(serving) }) // it fails without a bucket only, which Start needed
	tasks.Go(func() { s.states.Follow(serving, s.announcer, func(functions.Change) {}) })
	tasks.Go(func() { deployment.Leave(leave, s.announcer.Run(serving)) })
	tasks.Go(func() { s.retire(serving) })
	tasks.Go(func() { s.sendLoads(serving) })
	tasks.Go(func() { s.takeHints(serving) })
	tasks.Go(func() { s.awaitServing(serving) })
	planning, stopPlanning := context.WithCancel(ctx)
	tasks.Go(func() { s.planner().Run(planning) })
	tasks.Go(func() {
		defer leave(nil)
		defer stopPlanning()
		select {
		case <-ctx.Done():
			s.handOver(serving)
		case <-s.deviceFailed():
		case <-serving.Done(): // it could not be announced
		}
	})
	return errors.Join(s.presence.Announce(serving), deployment.WhyLeft(serving), s.deviceError())
}

// deviceFailed is closed when the host has lost its device. It hands nothing over
// then: each row that waits for it is late already, and who hears its farewell sends
// rows elsewhere at once.
func (s *Service) deviceFailed() <-chan struct{} {
	if f, ok := s.device.(device.Failer); ok {
		return f.Failed()
	}
	return nil
}

func (s *Service) deviceError() error {
	if f, ok := s.device.(device.Failer); ok && f.Err() != nil {
		return &gpus.Error{Err: fmt.Errorf("%s: %w", s.device.Name(), f.Err())}
	}
	return nil
}

// Stop finishes what the host has taken.
func (s *Service) Stop(ctx context.Context) error {
	if s.view == nil { // it was refused, or has not come to start
		s.closeDevice()
		return nil
	}
	if s.untold != nil {
		defer s.untold()
	}
	if s.asks != nil {
		_ = s.asks.Unsubscribe() // fails without a connection: then nobody asks either
	}
	if s.hintsSub != nil {
		_ = s.hintsSub.Unsubscribe() // as above
	}
	return s.drainAll(ctx)
}

// closeDevice waits for loads, unless the device is somebody else's.
func (s *Service) closeDevice() {
	if s.config.Device == nil {
		s.device.Close()
	}
}

// Ready says whether the host serves a plan.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.cold()
}

// cold says what of the plan the host does not serve yet.
func (s *Service) cold() error {
	if s.presence.Ready() {
		return nil
	}
	return fmt.Errorf("the functions that the plan wants here are not warm yet%s", s.remaining())
}

// remaining says which those are, as far as there is a plan.
func (s *Service) remaining() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, want := len(s.plans), len(s.d.MoELayers()); have < want {
		return fmt.Sprintf(": %d of %d layers have a plan", have, want)
	}
	waiting, first := 0, (*function)(nil)
	for _, f := range s.functions {
		if f.loads() && f.state.Phase != isWarm && f.state.Phase != isRefused {
			if waiting++; first == nil || f.layer < first.layer || f.layer == first.layer && f.spec.Id < first.spec.Id {
				first = f
			}
		}
	}
	if first == nil {
		return ""
	}
	return fmt.Sprintf(": %d of %d, among them function %s of layer %d", waiting, len(s.functions), first.spec.Id, first.layer)
}

// receive computes a dispatch: one from the group of f, or, when f is nil, one
// that was sent to this host by name.
func (s *Service) receive(ctx context.Context, m *bus.Msg, f *function) error {
	watch := ledger.StartAt(m.Arrived)
	took := &pb.FunctionTime{QueueNs: watch.Lap()}
	d := &pb.Dispatch{}
	if err := proto.Unmarshal(m.Data, d); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding a dispatch: %w", wire.ErrMalformed, err))
	}
	if err := s.late.Check(d.Key, m.Arrived, time.Now()); err != nil {
		return err
	}
	took.TransferNs = watch.Lap()
	if f == nil {
		return s.receiveByName(ctx, byName{d, m.Arrived, took, watch})
	}
	return s.serve(ctx, f, d, m.Arrived, took, watch)
}

// serve computes a dispatch when its function is warm.
func (s *Service) serve(ctx context.Context, f *function, d *pb.Dispatch, arrived time.Time, took *pb.FunctionTime, watch ledger.Stopwatch) error {
	a, err := s.rouse(ctx, f, d, arrived)
	switch {
	case err != nil:
		return err
	case a.stale:
		s.metrics.Repeats.Inc()
		return nil
	case a.waited:
		took.StallNs = watch.Lap()
		if !wire.Remains(d.Key, time.Duration(took.StallNs)) {
			s.done(f, true)
			return wire.ErrLate
		}
	}
	defer s.done(f, a.waited)
	ctx, span := s.tracer.Child(ctx, telemetry.SpanExpert,
		telemetry.Layer(d.GetKey().GetLayer()), telemetry.Attempt(d.GetKey().GetAttempt()), telemetry.Function(f.spec.Id))
	defer span.End()
	took.Function = f.number
	took.TransferNs += watch.Lap()
	return s.handle(ctx, f, d, took, a.cold)
}

func (s *Service) handle(ctx context.Context, f *function, d *pb.Dispatch, took *pb.FunctionTime, cold bool) error {
	began := time.Now()
	c := s.computers.take(began)
	defer s.computers.give(c)
	p, err := c.compute(d, took)
	switch unable := (*UnitError)(nil); {
	case errors.As(err, &unable):
		return s.decline(ctx, d, err)
	case isPermanent(err):
		s.metrics.Refused.Inc()
		return wire.Refuse(ctx, s.d.Hop, s.d.Subjects, d.Key, fmt.Errorf("%s: %w", s.id, err))
	case err != nil:
		return fmt.Errorf("function %s: %w", f.spec.Id, err)
	}
	s.metrics.ExpertCompute().Observe(time.Since(began).Seconds())
	f.count(s, d)
	f.spent.add(took)
	if cold {
		took.ColdRows = coldRows(s.d.Shape, d.Place)
	}
	to := s.d.Subjects.Partial(d.Key.Shard)
	d.Key.Shard, d.Key.RowSums = "", false // the partial's subject and places say it
	limit := wire.RowsPerMessage(int(s.d.Conn.MaxPayload())-len(d.Awaits), s.d.Shape.Hidden*s.d.Wire.ElementBytes()+routingBytes)
	for _, part := range cut(p, limit) {
		if err := s.d.Hop.Send(ctx, to, part); err != nil {
			return fmt.Errorf("publishing a partial: %w", err)
		}
	}
	return nil
}

// stuckAfter is longer than any dispatch takes, and leaves attention the time
// to have its rows computed elsewhere.
const stuckAfter = 10 * time.Second

// stuck says whether a dispatch does not come to its end.
func (s *Service) stuck() bool { return s.computers.longest(time.Now()) > stuckAfter }

// routingBytes is for a partial row's own row and slot.
const routingBytes = 16

// count adds the rows of a dispatch that was computed to the experts' loads.
func (f *function) count(s *Service, d *pb.Dispatch) {
	for _, e := range d.Expert {
		if rows := f.rows[e]; rows != nil {
			rows.Inc()
		}
	}
	s.loads.Add(d.Key.Layer, d.Expert)
	s.presence.Add(members.HostMessages, 1)
	s.presence.Add(members.HostRows, float64(len(d.Expert)))
}

// fill adds what the host holds to its stats. Nothing here is an entry an
// expert: all members are renewed every 0.4 s, and a model may have thousands.
func (s *Service) fill(stats map[string]float64) {
	stats["expert_bytes"] = float64(s.device.Memory().Used)
	stats[members.HostSeconds] = s.computers.total(time.Now()).Seconds()
	used := s.device.Metered()
	stats[members.HostHeld], stats[members.HostTaken] = used.Held(), used.Taken
	s.mu.Lock()
	stats["cold_starts_total"] = float64(s.coldStarts)
	s.mu.Unlock()
	if r, ok := s.device.(device.Reporter); ok {
		r.Report(stats)
	}
	maps.Copy(stats, s.config.GPU.Figures())
}
