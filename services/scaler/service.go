package scaler

import (
	"context"
	"fmt"
	"sync"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/functions"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/plan"
	"github.com/switchyard/switchyard/pkg/control/planner"
	"github.com/switchyard/switchyard/pkg/policy/divide"
	"github.com/switchyard/switchyard/pkg/policy/elastic"
	"github.com/switchyard/switchyard/pkg/process/deployment"
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
	states   *functions.View
	policy   *policy
	stop     context.CancelFunc // ends the view
	unfollow func()             // ends the metrics
}

// New returns a scaler that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("scaler")
	return &Service{d: d, config: c, id: id, presence: d.NewPresence(id, "scaler")}
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Start joins the members. Kafka need not be there: without samples the plan
// follows the hosts.
func (s *Service) Start(ctx context.Context) error {
	samples, err := kafka.NewReader(kafka.ReaderSettings{
		Config: s.config.Kafka, Group: s.group(), Logger: s.d.Logger, Count: func(outcome string, n int) { s.policy.count(outcome, n) },
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

// group is the consumer group of this model's scalers.
func (s *Service) group() string {
	return fmt.Sprintf("%s-scaler-%s", s.d.Subjects.Prefix, s.d.Subjects.Model)
}

func (s *Service) start(ctx context.Context, samples Samples) (err error) {
	model, err := s.model()
	if err != nil {
		return err
	}
	if s.states, err = functions.NewView(s.d.Functions, s.d.FunctionRules()); err != nil {
		return err
	}
	s.policy = newPolicy(s.config.settings(), model, samples, s.d.Telemetry, s.d.Logger)
	s.policy.tracer = s.d.Telemetry.Tracer("scaler", s.id)
	s.policy.presence, s.policy.refusals, s.policy.computed, s.policy.applied = s.presence, s.refusals, s.computed, s.applied
	s.policy.access = func() (divide.Takes, bool) { return access(s.view.Snapshot()) }
	s.presence.Set(members.ScalingBy+s.config.policy(), 1)
	s.presence.Fill = func(stats map[string]float64) { stats[members.Planning] = s.policy.states()["active"] }
	s.unfollow = s.policy.follow(s.d.Telemetry.Metrics.Scaler)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if s.view, err = s.presence.Watch(watching); err != nil {
		return err
	}
	s.presence.SetReady(true)
	return nil
}

// model is what is to be planned.
func (s *Service) model() (elastic.Model, error) {
	spec := s.d.Model.Spec
	largest, err := device.Largest(spec, func(id forward.ExpertID) (int64, error) { return forward.ExpertBytes(s.d.Model, id) })
	if err != nil {
		return elastic.Model{}, fmt.Errorf("sizing the experts: %w", err)
	}
	return elastic.Model{
		Model: plan.Model{MoELayers: s.d.MoELayers(), Experts: spec.Experts, ExpertBytes: uint64(largest)},
		Hash:  s.d.Identity.Model, TopK: spec.TopK,
	}, nil
}

// Ready says whether the scaler can plan, if the others leave it to it.
func (s *Service) Ready() error { return s.presence.Reachable() }

// Run plans while it has the lease, until ctx ends and the hosts know that they
// are to plan themselves.
func (s *Service) Run(ctx context.Context) error {
	serving, leave := context.WithCancel(context.WithoutCancel(ctx))
	planning, stop := context.WithCancel(ctx)
	s.policy.stopping = func() bool { return planning.Err() != nil }
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer leave() // these before the wait
	defer stop()
	tasks.Go(func() { s.states.Follow(serving, nil, func(functions.Change) {}) })
	tasks.Go(func() {
		defer leave()
		s.planner(planner.InBucket(s.d.Leases, s.id, s.presence.Lease())).Run(planning)
	})
	tasks.Go(func() {
		<-planning.Done()
		s.presence.Drain()
	})
	return s.presence.Announce(serving)
}

func (s *Service) planner(l planner.Lease) *planner.Planner {
	return planner.New(planner.Settings{
		Lease: l, Members: s.view, Caller: s.presence, Plans: s.d.Plans, Groups: s.d, Records: s.states,
		Model: s.policy.model.Model, Elastic: s.policy, Logger: s.d.Logger,
	})
}

// refusals are the functions that hosts have refused, of those that the plan wants.
func (s *Service) refusals(k plan.Known, each func(host, function string)) {
	for layer := range k.InForce {
		for _, h := range k.Hosts {
			for _, f := range s.states.Host(layer, h.ID).GetFunctions() {
				if f.Phase == pb.FunctionPhase_FUNCTION_PHASE_REFUSED {
					each(h.ID, f.Id)
				}
			}
		}
	}
}

// applied is which version of each layer's plan all gates use at least. Without gates there
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

// computed is how many rows all hosts have computed, by what they say as members.
func (s *Service) computed() (rows float64) {
	for _, m := range members.OfService(s.view.Snapshot(), "expert") {
		rows += m.Stats[members.HostRows]
	}
	return rows
}

// Stop leaves.
func (s *Service) Stop(context.Context) error {
	if s.stop != nil {
		s.stop()
	}
	if s.unfollow != nil {
		s.unfollow()
	}
	return nil
}
