package scaler

import (
	"context"
	"fmt"
	"math"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/policy/plan"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/transport/kafka"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Samples is where load samples come from, as a kafka.Reader reads them.
type Samples interface {
	// Consume hands samples on, one at a time, until ctx ends.
	Consume(ctx context.Context, handle func(*pb.LoadSample)) error
}

// Service is one scaler.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	view     *members.View
	states   *planstore.FunctionView
	policy   *policy
	rented   *renter            // plans in the policy's place; nil: none does
	stop     context.CancelFunc // ends the view
	unfollow func()             // ends the metrics
}

// New returns a scaler that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("scaler")
	return &Service{d: d, config: c, id: id, presence: d.NewPresence(id, "scaler")}
}

// Name returns the replica's id.
func (s *Service) Name() string { return s.id }

// Start joins the members. Kafka need not be there: without samples the plan
// follows the hosts.
func (s *Service) Start(ctx context.Context) error {
	samples, err := kafka.NewReader(kafka.ReaderSettings{
		Config: s.config.Kafka, Group: fmt.Sprintf("%s-scaler-%s", s.d.Subjects.Prefix, s.d.Subjects.Model), Logger: s.d.Logger, Count: func(outcome string, n int) { s.policy.count(outcome, n) },
	})
	if err != nil {
		return fmt.Errorf("preparing to read load samples: %w", err)
	}
	if err := s.start(ctx, samples); err != nil {
		return err
	}
	s.followKafka(samples)
	return nil
}

// kafkaState is what a reader of samples says of Kafka.
type kafkaState interface {
	Up() (is, known bool)
	Lag() int64
}

// followKafka shows what the reader says while this scaler plans: one that stands by
// reads nothing.
func (s *Service) followKafka(of kafkaState) {
	m, rest := s.d.Telemetry.Metrics, s.unfollow
	up := m.Kafka.Up.Follow(s.policy.whileActive(telemetry.Up("read", of.Up)))
	lag := m.Kafka.Lag.Follow(s.policy.whileActive(func() []telemetry.Reading {
		return []telemetry.Reading{{Value: float64(of.Lag())}}
	}))
	s.unfollow = func() { rest(); up(); lag() }
}

func (s *Service) start(ctx context.Context, samples Samples) (err error) {
	model, err := s.model()
	if err != nil {
		return err
	}
	if s.states, err = planstore.NewFunctionView(s.d.Functions, s.d.FunctionRules()); err != nil {
		return err
	}
	s.policy = newPolicy(s.config.settings(), model, samples, s.d.Telemetry, s.d.Logger)
	s.policy.tracer = s.d.Telemetry.Tracer("scaler", s.id)
	s.policy.presence, s.policy.refusals, s.policy.computed, s.policy.applied = s.presence, s.refusals, s.computed, s.applied
	s.policy.here = s.here
	s.policy.hosts = func() []*pb.Member { return members.OfService(s.view.Snapshot(), "expert") }
	s.policy.access = func() (divide.Takes, bool) { return access(s.view.Snapshot()) }
	s.presence.Set(members.ScalingBy+s.config.policy(), 1)
	s.presence.Fill = func(stats map[string]float64) { stats[members.Planning] = s.policy.states()["active"] }
	s.unfollow = s.policy.follow(s.d.Telemetry.Metrics.Scaler)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if s.view, err = s.presence.Watch(watching); err != nil {
		return err
	}
	if s.config.Rent != nil {
		if s.rented, err = newRenter(s.policy, s.d, *s.config.Rent); err != nil {
			return err
		}
	}
	s.presence.SetReady(true)
	return nil
}

// model returns what is to be planned.
func (s *Service) model() (elastic.Model, error) {
	spec := s.d.Model.Spec
	largest, err := device.Largest(spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(s.d.Model, id) })
	if err != nil {
		return elastic.Model{}, fmt.Errorf("sizing the experts: %w", err)
	}
	return elastic.Model{
		Model: plan.Model{MoELayers: s.d.MoELayers(), Experts: spec.Experts, ExpertBytes: uint64(largest)},
		Hash:  s.d.Identity.Model, TopK: spec.TopK, Uneven: spec.EncoderLayers > 0 && spec.EncoderLayers < spec.Layers,
	}, nil
}

// Ready reports whether the scaler can plan, if the others leave it to it.
func (s *Service) Ready() error { return s.presence.Reachable() }

// Run plans while it has the lease, until ctx ends and the hosts know that they
// are to plan themselves.
func (s *Service) Run(ctx context.Context) error {
	tasks := lifecycle.Serving(context.WithoutCancel(ctx))
	planning := tasks.Within(ctx)
	s.policy.stopping = func() bool { return planning.Err() != nil }
	tasks.Go(func(ctx context.Context) { s.states.Follow(ctx, nil, func(planstore.FunctionChange) {}) })
	tasks.Last(func(context.Context) {
		s.planner(planner.InBucket(s.d.Leases, s.id, s.presence.Lease())).Run(planning)
	})
	tasks.Go(func(context.Context) {
		<-planning.Done()
		s.presence.Drain()
	})
	return tasks.Run(s.presence.Announce)
}

func (s *Service) planner(l planner.Lease) *planner.Planner {
	var by planner.Elastic = s.policy
	if s.rented != nil {
		by = s.rented
	}
	return planner.New(planner.Settings{
		Lease: l, Members: s.view, Caller: s.presence, Plans: s.d.Plans, Groups: s.d, Records: s.states,
		Model: s.policy.model.Model, Elastic: by, Logger: s.d.Logger,
	})
}

// refusals are the functions that hosts have refused, of those that the plan wants.
func (s *Service) refusals(k plan.Known, each func(host, function string)) {
	here := make(map[string]bool, len(k.Hosts))
	for _, h := range k.Hosts {
		here[h.ID] = true
	}
	s.states.Refused(func(layer int, host, function string) {
		if here[host] && k.InForce[layer] != nil {
			each(host, function)
		}
	})
}

// applied returns which version of each layer's plan all gates use at least. Without gates there
// is none that does not.
func (s *Service) applied(k plan.Known) map[int]uint64 {
	gates := members.OfService(s.view.Snapshot(), "gate")
	versions := make(map[int]uint64, len(k.InForce))
	for layer, in := range k.InForce {
		versions[layer] = in.Version
		for _, g := range gates {
			versions[layer] = min(versions[layer], s.states.Acknowledged(g.Id, layer))
		}
	}
	return versions
}

// here returns the attention replicas and gates among the members; false while those are not known.
func (s *Service) here() (attention, gates map[string]bool, known bool) {
	if !s.view.Synced() {
		return nil, nil, false
	}
	all := s.view.Snapshot()
	return ids(all, "attention"), ids(all, "gate"), true
}

func ids(all []*pb.Member, service string) map[string]bool {
	of := map[string]bool{}
	for _, m := range members.OfService(all, service) {
		of[m.Id] = true
	}
	return of
}

// computed returns how many rows all hosts have computed, by what they say as members; false if
// none says so.
func (s *Service) computed() (rows float64, said bool) {
	for _, m := range members.OfService(s.view.Snapshot(), "expert") {
		n, says := m.Stats[members.HostRows]
		if says && n >= 0 && !math.IsInf(n, 1) { // which NaN is not
			rows, said = rows+n, true
		}
	}
	return rows, said
}

// Stop ends the view and the following of plans.
func (s *Service) Stop(context.Context) error {
	if s.stop != nil {
		s.stop()
	}
	if s.unfollow != nil {
		s.unfollow()
	}
	return nil
}
