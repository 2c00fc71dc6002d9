package expert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/device/paced"
	"github.com/switchyard/switchyard/pkg/compute/device/paced/profiles"
	"github.com/switchyard/switchyard/pkg/compute/united"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/expert/compute"
	"github.com/switchyard/switchyard/services/expert/hints"
	"github.com/switchyard/switchyard/services/expert/residency"
	"github.com/switchyard/switchyard/services/expert/serving"
)

// Service is one expert host: its rooms, and what they share.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	device   device.Device
	united   *united.Set // nil: none
	// expertBytes is what an expert takes at most.
	expertBytes uint64

	computers *compute.Computers
	functions *residency.Residency
	serving   *serving.Serving
	report    *loadReport
	hints     *hints.Hints
	follower  *hints.Follower     // nil: the host does not offload
	invoked   *compute.RentedHost // nil: no plan for batches rents functions here

	view      *members.View // from Start on
	states    *planstore.FunctionView
	announcer *planstore.Announcer
	first     chan struct{}      // closed when a plan is there
	planned   sync.Once          // closes it
	stop      context.CancelFunc // ends what Start began
	untold    func()             // ends telling the metrics
}

// New returns a host that is not started. It fails with *gpus.Error.
func New(d *deployment.Deployment, c Config) (*Service, error) {
	o, err := c.offload(d.Model.Spec)
	if err != nil {
		return nil, err
	}
	set, err := c.openUnited(d.Model)
	if err != nil {
		return nil, err
	}
	var beside device.Beside
	if set != nil {
		beside = set
	}
	on, err := c.device(d, o, beside)
	if err != nil {
		return nil, errors.Join(err, set.Close())
	}
	return newOn(on, d, c, o, set), nil
}

func newOn(on device.Device, d *deployment.Deployment, c Config, o offload, set *united.Set) *Service {
	id := d.ReplicaID("expert")
	s := &Service{d: d, config: c, id: id, presence: d.NewPresence(id, "expert"), device: on, united: set, first: make(chan struct{}), untold: func() {}}
	if n, err := device.Largest(d.Model.Spec, on.Size); err == nil {
		s.expertBytes = uint64(n)
	}
	var follow func(*pb.Hint)
	counter := loads.NewCounter(d.Identity.Model, id, d.Shape.MoE, d.Model.Spec.Experts)
	s.computers = compute.New(on, d.Shape, d.Wire, set)
	functions := residency.Settings{
		Host: id, Layers: len(d.MoELayers()), Device: on, United: set, KeepAlive: c.KeepAlive, Offload: o.order != nil,
		Presence: s.presence, Metrics: d.Telemetry.Metrics, Logger: d.Logger, Unloadable: c.Unloadable,
	}
	rows := serving.Settings{
		Deployment: d, Host: id, Presence: s.presence, Tracer: d.Telemetry.Tracer("expert", id), Computers: s.computers, Loads: counter,
	}
	if b := c.Batches; b != nil {
		s.invoked = compute.NewRentedHost(b.System, b.Seed)
		rows.Invoked = s.invoked
	}
	if o.order != nil {
		s.follower = hints.NewFollower(hints.Settings{
			Device: on, Serves: func(layer, expert int) bool { return s.functions.Serves(layer, expert) }, Fetch: o.fetches, Outlook: o.outlook, Near: s.near(o),
			Layers: d.Model.Spec.Layers, Experts: d.Model.Spec.Experts, Metrics: d.Telemetry.Metrics.Hosts, Tracer: rows.Tracer,
		})
		functions.Yield, rows.Watch, follow = s.follower.Yield, s.follower, s.follower.Follow
	}
	s.functions = residency.New(functions)
	if o.ended != nil {
		ended := s.loadEnded
		o.ended.Store(&ended)
	}
	rows.Functions = s.functions
	s.serving = serving.New(rows)
	s.report = newLoadReport(reportSettings{
		Deployment: d, Host: id, Functions: s.functions, Computers: s.computers, Device: on, GPU: c.GPU, Loads: counter,
	})
	s.hints = hints.New(d, id, follow)
	s.introduce()
	return s
}

// near is for how many layers ahead hints are followed: what is loaded for later ones would take the place
// of what sooner ones need.
func (s *Service) near(o offload) int {
	if !o.near || s.config.MemoryBudget == 0 || s.expertBytes == 0 {
		return 0
	}
	return int(max(1, s.config.MemoryBudget/s.expertBytes))
}

// introduce tells the members what the host has.
func (s *Service) introduce() {
	p := s.presence
	if s.follower == nil {
		p.SetBudget(uint64(s.device.Memory().Budget))
	} else { // it serves whatever it holds
		p.Set(members.Offloads, 1)
	}
	p.Device, p.ExpertBytes, p.United = s.device.Name(), s.expertBytes, s.offers()
	if b := s.config.Batches; b != nil {
		p.Device = paced.NameOf(&profiles.Profile{Name: b.Name})
	}
	if s.config.Profile != nil {
		p.Access = plan.Access(divide.TakesOf(s.config.Profile.Compute(), float64(s.expertBytes), 0))
	}
	p.Add(members.HostRows, 0) // from the start: gates' words are compared with it
	p.Fill, p.Trouble = s.report.Fill, s.cold
	p.Stuck = func() bool { return s.computers.Stuck(time.Now()) }
}

// Name is the host's id.
func (s *Service) Name() string { return s.id }

// Start joins the members; functions come with the plan.
func (s *Service) Start(ctx context.Context) (err error) {
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	if s.states, err = planstore.NewFunctionView(s.d.Functions, s.d.FunctionRules()); err != nil {
		return err
	}
	if s.announcer, err = planstore.NewAnnouncer(s.d.Functions); err != nil {
		return err
	}
	s.untold = s.report.Follow(s.d.Telemetry.Metrics.Hosts)
	s.functions.Begin(own, onBus{FunctionView: s.states, d: s.d, announcer: s.announcer, serving: s.serving})
	if err := s.serving.Listen(ctx); err != nil {
		return err
	}
	return errors.Join(s.report.Listen(), s.hints.Listen())
}

// Run follows the plan, and runs a planner, until ctx ends and others have
// taken over.
func (s *Service) Run(ctx context.Context) error {
	defer s.followGPU(ctx)()
	leave := Handover{Presence: s.presence, Functions: s.functions, Members: s.view}
	tasks := lifecycle.Leaving(ctx, s.deviceFailed(), leave.Run)
	tasks.Go(s.followPlan)
	tasks.Go(func(ctx context.Context) { s.states.FollowOwn(ctx, s.announcer) })
	tasks.Needs(s.announcer.Run)
	tasks.Go(func(ctx context.Context) { s.functions.Run(ctx, s.view) })
	tasks.Go(s.report.Run)
	tasks.Go(s.hints.Run)
	if s.follower != nil {
		tasks.Go(s.follower.Run)
	}
	tasks.Go(s.awaitServing)
	planning := tasks.Within(ctx)
	tasks.Go(func(context.Context) {
		if s.mayPlan(planning) {
			s.planner().Run(planning)
		}
	})
	return errors.Join(tasks.Run(s.presence.Announce), s.deviceError())
}

// followPlan adopts each layer's new plans until ctx ends.
func (s *Service) followPlan(ctx context.Context) {
	_ = s.d.Plans.Follow(ctx, func(v planstore.Value) { // fails without a bucket only, which Start needed
		if v.Plan != nil {
			s.planned.Do(func() { close(s.first) })
			s.rent(v.Plan)
			s.functions.Adopt(v.Plan)
		}
	})
}

// tellLoads is how often the log says how far loads are.
const tellLoads = 5 * time.Second

// awaitServing says that the host is ready when it serves, and how far it is until then.
func (s *Service) awaitServing(ctx context.Context) {
	tick := time.NewTicker(tellLoads)
	defer tick.Stop()
	for {
		select {
		case <-s.functions.Serving():
			s.presence.SetReady(true)
			s.tellProgress("the experts that the plan wants here are loaded")
			return
		case <-tick.C:
			s.tellProgress("loading experts")
		case <-ctx.Done():
			return
		}
	}
}

func (s *Service) tellProgress(event string) {
	p := s.functions.Progress()
	s.d.Logger.Info(event, "bytes", p.Bytes, "of", p.All, "for", p.For.Round(time.Millisecond), "bytes_per_second", int64(float64(p.Bytes)/max(p.For.Seconds(), 1e-3)))
}

// Stop finishes what the host has taken.
func (s *Service) Stop(ctx context.Context) error {
	defer s.untold()
	defer func() { _ = s.united.Close() }() // what is loaded was copied
	defer s.closeDevice()
	if s.invoked != nil {
		defer s.invoked.Close()
	}
	if s.view == nil { // it was refused, or has not come to start
		return nil
	}
	s.report.Close()
	s.hints.Close()
	s.functions.End()
	s.stop()
	err := s.serving.Drain(ctx)
	if s.follower != nil {
		s.follower.Close()
	}
	return errors.Join(err, s.functions.Free(ctx))
}

// Ready reports whether the host serves a plan.
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
	const cold = "the functions that the plan wants here are not warm yet"
	if what := s.functions.Remaining(); what != "" {
		return fmt.Errorf("%s: %s", cold, what)
	}
	return errors.New(cold)
}

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

// planner is the one that runs here while no scaler plans.
func (s *Service) planner() *planner.Planner {
	return planner.New(planner.Settings{
		Lease: planner.InBucket(s.d.Leases, s.id, s.presence.Lease()), Members: s.view, Caller: s.presence, Plans: s.d.Plans, Groups: s.d, Records: s.states,
		Model:   plan.Model{MoELayers: s.d.MoELayers(), Experts: s.d.Model.Spec.Experts, ExpertBytes: s.expertBytes},
		YieldTo: "scaler", Logger: s.d.Logger,
	})
}
