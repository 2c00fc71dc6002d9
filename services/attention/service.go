package attention

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/layer"
	"github.com/switchyard/switchyard/services/attention/queue"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// Service is one attention replica.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	weights  weights
	log      *tokenlog.Log
	view     *members.View
	layer    *layer.Layer
	engine   *engine.Engine
	keeper   *renewal.Keeper
	queue    *queue.Queue
	dimmer   *dimmer // nil: no brownouts
	blocks   *bus.Receiving
	signals  signals
	subs     []*nats.Subscription

	// tasks are admissions under way; ctx ends what Start began.
	tasks sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc
}

// blocksInFlight is generous: a block that waits delays its worker. It bounds what acked hops bring.
const blocksInFlight = 64

// New returns a replica that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("attention")
	presence := d.NewPresence(id, "attention")
	presence.Sampling = schemas.Sampling
	return &Service{
		d: d, config: c, id: id, presence: presence, layer: layer.New(layer.Settings{Deployment: d, Replica: id, Presence: presence}),
		weights: weights{d: d, config: c}, log: tokenlog.Of(d, id), dimmer: newDimmer(d, c.Brownout, id),
	}
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads the weights and begins to listen, but takes no work yet.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := s.weights.load(ctx); err != nil {
		return err
	}
	s.weights.tellRoom()
	s.presence.Fill = func(stats map[string]float64) {
		s.queue.Fill(stats)
		stats[members.StepSeconds] = s.layer.StepTime().Seconds()
		maps.Copy(stats, s.config.GPU.Figures())
		s.dimmer.fill(stats)
	}
	s.presence.Trouble = s.layer.Peers.Ready
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	s.layer.Begin(s.view)
	s.build()
	return s.listen(ctx)
}

// build puts the rooms together.
func (s *Service) build() {
	settings := engine.Settings{
		Deployment: s.d, Replica: s.id, Presence: s.presence, Tracer: s.d.Telemetry.Tracer("attention", s.id),
		Backbone: s.weights.backbone, KV: s.weights.kv,
		Remote: func(microbatch int, p *forward.Progress) engine.Remote { return s.layer.Exchange.Remote(microbatch, p) },
		Rows:   engine.Rows{Max: s.config.MaxRows, Microbatches: s.config.Microbatches, Min: s.config.MinRows, Drag: s.config.PromptDrag, LongSteps: s.config.LongSteps},
		Drafts: s.config.Speculate, SharePrefixes: s.config.PrefixCache,
		Directives: s.directives(), Tasks: &s.tasks, Stopped: s.ctx.Done(),
	}
	if s.weights.gpu != nil {
		settings.Device = s.weights.gpu
	}
	s.engine = engine.New(settings)
	s.keeper = renewal.New(s.d.Logger, s.engine.Pulse(), s.engine.Workers(), queue.AckWait)
	s.queue = queue.New(queue.Settings{
		Deployment: s.d, Replica: s.id, Presence: s.presence, Log: s.log, Members: s.view, Pages: s.weights.kv, Keeper: s.keeper, Engine: s.engine,
		MaxSequences: s.config.MaxSequences, MaxModelLen: s.config.MaxModelLen, Throttles: s.config.GPU.Throttles, Before: s.config.Before, Tasks: &s.tasks,
	})
	s.signals = signals{refused: s.d.Telemetry.Metrics.Refused, leave: s.queue.Cancel, end: s.engine.End}
}

// directives are what steps obey; nil: nothing.
func (s *Service) directives() engine.Directives {
	if s.config.Directives != nil {
		return s.config.Directives
	}
	return s.dimmer.steps()
}

func (s *Service) listen(ctx context.Context) (err error) {
	s.blocks, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Block(), Name: s.id, Subject: s.d.Subjects.Block(s.id), MaxInFlight: blocksInFlight, Sole: true,
	}, s.layer.OnBlock)
	if err != nil {
		return fmt.Errorf("receiving blocks: %w", err)
	}
	if err := s.queue.Open(ctx, s.ctx); err != nil {
		return err
	}
	return s.hear()
}

// hear listens to tokenizers and siblings.
func (s *Service) hear() error {
	for _, l := range []struct {
		subject string
		handler nats.MsgHandler
	}{
		{s.d.Subjects.AnyCancelled(), s.signals.onCancelled},
		{s.d.Subjects.AnyStop(), s.signals.onStop},
		{s.d.Subjects.AnyHoldings("attention"), s.queue.OnHoldings},
	} {
		sub, err := s.d.Conn.Hear(l.subject, "", l.handler)
		if err != nil {
			return err
		}
		s.subs = append(s.subs, sub)
	}
	return nil
}

// Run steps sequences until ctx ends; what is not finished then goes to a sibling.
func (s *Service) Run(ctx context.Context) error {
	tasks := lifecycle.Serving(ctx)
	defer s.engine.Follow()()
	// The steps on a GPU are lost with it.
	defer s.config.GPU.Follow(ctx, s.d.Logger, s.d.Telemetry.Metrics.GPUs, func(why error) { s.weights.gpu.Lose(why) })()
	tasks.Go(s.engine.Compute)
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	tasks.Go(func(context.Context) { s.keeper.Run(keeping) })
	tasks.Go(func(ctx context.Context) {
		defer stop()
		s.engine.Run(ctx, tasks.End)
	})
	tasks.Go(s.followMembers)
	tasks.Go(func(ctx context.Context) { s.engine.SendTimes(ctx, s.d, s.queue.Backlog) })
	back := s.d.Conn.Reconnection()
	tasks.Go(func(ctx context.Context) { s.layer.FollowServer(ctx, back) })
	tasks.Go(func(ctx context.Context) {
		if err := s.layer.FollowFunctions(ctx); err != nil {
			s.d.Logger.Warn("gates that find functions elsewhere, and cold functions, are not noticed", "error", err)
		}
	})
	tasks.Go(func(context.Context) { s.log.WatchRoom(keeping, s.replicas) })
	tasks.Go(func(ctx context.Context) {
		if s.layer.Peers.WaitReady(ctx) {
			s.presence.SetReady(true)
			s.queue.Take(ctx)
		}
	})
	tasks.Go(s.queue.Run)
	s.dimmer.run(tasks, s.presence)
	return tasks.Run(s.presence.Announce)
}

// followMembers has the rooms know who is there until ctx ends.
func (s *Service) followMembers(ctx context.Context) {
	s.view.Follow(ctx, func(all []*pb.Member) {
		s.layer.See(all)
		s.queue.See(all)
	})
}

func (s *Service) replicas() int { return len(members.OfService(s.view.Snapshot(), "attention")) }

// Stop ends what Start began, after Run has returned.
func (s *Service) Stop(ctx context.Context) error {
	if s.weights.gpu != nil {
		defer s.weights.gpu.Close()
	}
	if s.stop == nil {
		return nil
	}
	defer s.stop()
	defer context.AfterFunc(ctx, s.stop)() // what waits for the server ends with the time for draining
	if s.queue != nil {
		s.queue.Stop()
	}
	for _, sub := range s.subs {
		_ = sub.Unsubscribe() // fails when it is already gone
	}
	s.tasks.Wait()
	if s.queue != nil {
		s.queue.HandBack()
	}
	if s.blocks == nil {
		return nil
	}
	return s.blocks.Drain(ctx)
}

// Ready reports whether a token can flow through this replica.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.layer.Peers.Ready()
}

// signals hears which requests are to end early.
type signals struct {
	refused prometheus.Counter
	// leave takes a request out that waits, and end ends one that steps.
	leave func(request string)
	end   func(request, reason string)
}

func (s *signals) onCancelled(m *nats.Msg) {
	if request, ok := s.request(m); ok {
		s.leave(request)
		s.end(request, "cancelled")
	}
}

// onStop ends a request whose answer has its stop string. The answer looks
// complete then, so it must be a tokenizer that says so.
func (s *signals) onStop(m *nats.Msg) {
	if request, ok := s.request(m); ok {
		s.end(request, "stop")
	}
}

// request is which request a message means, if it is a signal.
func (s *signals) request(m *nats.Msg) (id string, ok bool) {
	if !schemas.IsSignal(m.Subject, m.Data) {
		s.refused.Inc()
		return "", false
	}
	return schemas.LastToken(m.Subject), true
}
