package attention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/device/cuda"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/loads"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/siblings"
	"github.com/switchyard/switchyard/pkg/policy/batching"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/gpus"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/wire"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Service is one attention replica.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics

	backbone *forward.Backbone
	gpu      *cuda.Backbone // or nil
	kv       *kvcache.Pool
	log      *tokenlog.Log
	view     *members.View
	peers    peers
	exchange *exchange
	engine   *engine
	slots    *slots
	waiting  *waiting
	queue    *bus.Queue
	blocks   *bus.Receiving
	subs     []*nats.Subscription
	siblings *siblings.Siblings
	company  atomic.Int32 // a company

	foreign chan struct{} // one for each sequence of another kind that waits

	ackWait, largerWithin time.Duration // constants but in tests
	throttles             func() bool   // of the device

	// tasks are admissions under way; ctx ends what Start began.
	tasks sync.WaitGroup
	ctx   context.Context
	stop  context.CancelFunc
}

// blocksInFlight is generous: a block that waits delays its worker.
const blocksInFlight = 64

// New returns a replica that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("attention")
	return &Service{
		d: d, config: c, id: id, presence: d.NewPresence(id, "attention"),
		tracer: d.Telemetry.Tracer("attention", id), metrics: d.Telemetry.Metrics,
		log: tokenlog.Of(d, id), slots: newSlots(c.MaxSequences), waiting: newWaiting(),
		foreign: make(chan struct{}, foreignAtOnce), ackWait: sequenceAckWait, largerWithin: largerWithin, throttles: c.GPU.Throttles,
	}
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads the weights and begins to listen, but takes no work yet.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := s.load(ctx); err != nil {
		return err
	}
	s.tellRoom()
	s.presence.Fill = func(stats map[string]float64) {
		stats[members.Places], stats[members.Waiting] = float64(s.places()), float64(s.waiting.size())
		stats[members.Context] = float64(s.limits().MaxLen)
		stats[members.StepSeconds] = s.exchange.latency.step(s.d.MoELayers()).Seconds()
		maps.Copy(stats, s.config.GPU.Figures())
	}
	s.presence.Trouble = s.peers.ready
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	s.peers.gateRoster, s.peers.aggregatorRoster = s.view.Roster("gate"), s.view.Roster("aggregator")
	s.peers.expertRoster = s.view.Roster("expert")
	s.build()
	return s.listen(ctx)
}

// build puts the engine and its workers together.
func (s *Service) build() {
	st := &stats{metrics: s.metrics, presence: s.presence, kv: s.kv, model: s.d.Subjects.Model, log: s.d.Logger, steps: s.d.Steps}
	st.observers = observe(s.metrics, s.d.MoELayers())
	if s.d.Loads != nil {
		st.times = loads.NewTimes(s.d.Identity.Model, s.id)
	}
	s.exchange = &exchange{
		subjects: s.d.Subjects, identity: s.d.Identity, hop: s.d.Hop, wire: s.d.Wire, d: s.d.Model.Spec.Hidden, topK: s.d.Model.Spec.TopK, moeLayers: s.d.MoELayers(),
		maxPayload: func() int { return int(s.d.Conn.MaxPayload()) }, owner: s.id, epoch: rand.Uint64(),
		announce: s.announce, shard: s.peers.shard, gate: s.peers.gate, suspect: s.peers.suspect, stats: st, latency: newLatency(), waiters: map[uint64]*remote{},
	}
	if s.d.Streams.AllRows {
		s.exchange.copyRows = s.copyRows
	}
	workers := make([]*worker, s.config.Microbatches)
	for i := range workers {
		workers[i] = newWorker(s.backbone, s.exchange.worker(i), s.tracer, st)
		workers[i].choose.Pool = s.d.Pool
	}
	policy := batching.Policy{
		Microbatches: s.config.Microbatches, MinRows: s.minRows(), MaxRows: s.config.MaxRows,
		MaxSeconds: s.maxSeconds(), MinPrefill: s.minPrefill(),
	}
	s.engine = newEngine(policy, workers, s.d.Logger, st)
	s.engine.batches = s.d.Batches
	if s.gpu != nil {
		s.engine.device = s.gpu
	}
	s.engine.keeper.lapse = s.ackWait
	st.active(0)
}

// announce publishes a step's rows on core NATS, for whoever listens.
func (s *Service) announce(ctx context.Context, step *pb.Step) error {
	if s.d.Streams.AllRows {
		_ = s.d.Conn.Send(ctx, s.d.Subjects.RowsStep(), step, nil) // as copyRows
	}
	return s.d.Conn.Send(ctx, s.d.Subjects.Step(), step, nil)
}

// copyRows publishes rows once more, for predictors that see them all. It waits for nothing,
// and a copy that is lost is missed by nobody else.
func (s *Service) copyRows(ctx context.Context, h *pb.Hidden) {
	_ = s.d.Conn.Send(ctx, s.d.Subjects.Rows(int(h.Key.Layer)), h, nil)
}

// maxStep is about how long prefill may hold a worker: what streams, and what is
// cancelled, waits for that.
const maxStep = 250 * time.Millisecond

func (s *Service) maxSeconds() float64 {
	if s.config.LongSteps {
		return 0
	}
	return maxStep.Seconds()
}

// minPrefill is for how many rows reading the weights takes as long as
// computing them: each expert's share of that many rows is a few.
func (s *Service) minPrefill() int {
	const few = 4
	sp := s.d.Model.Spec
	return few * max(1, sp.Experts/max(1, sp.TopK))
}

// What decides alone how many decode rows are worth another worker.
const (
	fewRows = 8
	// cheapLayer is how many bytes of weights take about as long to read as a
	// layer's messages take to travel.
	cheapLayer = 32 << 20
)

// minRows is the fewest decode rows for which another worker is used. Each worker
// reads the weights anew, so workers that hide a small model's messages cost a
// large one more than its messages do.
func (s *Service) minRows() int {
	switch {
	case s.config.MinRows > 0:
		return s.config.MinRows
	case s.d.Model.Bytes/int64(s.d.Model.Spec.Layers) <= cheapLayer:
		return fewRows
	}
	return s.config.MaxRows
}

func (s *Service) listen(ctx context.Context) (err error) {
	s.blocks, err = s.d.Hop.Receive(ctx, bus.Receiver{
		Stream: s.d.Streams.Block(), Name: s.id, Subject: s.d.Subjects.Block(s.id), MaxInFlight: blocksInFlight, Private: true,
	}, s.onBlock)
	if err != nil {
		return fmt.Errorf("receiving blocks: %w", err)
	}
	s.queue, err = s.d.Conn.Queue(ctx, bus.QueueSettings{
		Stream: s.d.Streams.Sequences(), Name: "attention", Subject: s.d.Subjects.Sequence(), AckWait: s.ackWait,
		Dead: s.d.Subjects.Dead("sequence"), Replica: s.id,
	})
	if err != nil {
		return fmt.Errorf("taking sequences: %w", err)
	}
	s.siblings = s.presence.Siblings(s.queue, s.engine.keeper.told)
	return s.hear()
}

// hear listens to tokenizers and siblings.
func (s *Service) hear() error {
	for _, l := range []struct {
		subject string
		handler nats.MsgHandler
	}{
		{s.d.Subjects.AnyCancelled(), s.onCancelled},
		{s.d.Subjects.AnyStop(), s.onStop},
		{s.d.Subjects.AnyHoldings("attention"), s.siblings.OnTold},
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
	ctx, leave := context.WithCancelCause(ctx)
	s.engine.fail = leave
	defer s.engine.stats.mirror()()
	defer s.followGPU(ctx)()
	var running sync.WaitGroup
	defer running.Wait()
	defer leave(nil) // before the wait
	for _, l := range s.engine.workers {
		running.Go(func() { l.run(ctx, s.engine.finished) })
	}
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	running.Go(func() { s.engine.keeper.run(keeping, s.ackWait/renewals) })
	running.Go(func() {
		defer stop()
		s.engine.run(ctx)
	})
	running.Go(func() { s.followPeers(ctx) })
	running.Go(func() { s.sendTimes(ctx) })
	back := s.d.Conn.Reconnection()
	running.Go(func() { s.followServer(ctx, back) })
	running.Go(func() {
		if err := s.followFunctions(ctx); err != nil {
			s.d.Logger.Warn("gates that find functions elsewhere, and cold functions, are not noticed", "error", err)
		}
	})
	running.Go(func() { s.log.WatchRoom(keeping, s.replicas) })
	running.Go(func() {
		if s.peers.waitReady(ctx) {
			s.presence.SetReady(true)
			s.takeWork(ctx)
		}
	})
	running.Go(func() { s.turns(ctx) })
	running.Go(func() { s.rebalance(ctx) })
	running.Go(func() { s.siblings.Run(ctx) })
	return errors.Join(s.presence.Announce(ctx), lostDevice(ctx))
}

// lostDevice is why a replica leaves, if that is its device.
func lostDevice(ctx context.Context) error {
	var lost *gpus.Error
	if errors.As(context.Cause(ctx), &lost) {
		return lost
	}
	return nil
}

// replicas is how many attention replicas write to the token log, this one too.
func (s *Service) replicas() int { return len(members.OfService(s.view.Snapshot(), "attention")) }

// Stop ends what Start began, after Run has returned.
func (s *Service) Stop(ctx context.Context) error {
	if s.gpu != nil {
		defer s.gpu.Close()
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
	s.handBack()
	if s.blocks == nil {
		return nil
	}
	return s.blocks.Drain(ctx)
}

// Ready says whether a token can flow through this replica.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.peers.ready()
}

func (s *Service) onBlock(_ context.Context, m *bus.Msg) error {
	b := &pb.Block{}
	if err := proto.Unmarshal(m.Data, b); err != nil {
		return bus.Poison(fmt.Errorf("%w: decoding a block: %w", wire.ErrMalformed, err))
	}
	if err := s.exchange.receive(b); err != nil {
		s.metrics.Refused.Inc()
		return bus.Poison(err)
	}
	return nil
}

// onCancelled ends a request that its producer wants no more.
func (s *Service) onCancelled(m *nats.Msg) {
	if !schemas.IsSignal(m.Subject, m.Data) {
		s.metrics.Refused.Inc()
		return
	}
	s.cancelWaiting(schemas.LastToken(m.Subject))
	s.endEarly(schemas.LastToken(m.Subject), "cancelled")
}

// onStop ends a request whose answer has its stop string. The answer looks
// complete then, so it must be a tokenizer that says so.
func (s *Service) onStop(m *nats.Msg) {
	if !schemas.IsSignal(m.Subject, m.Data) {
		s.metrics.Refused.Inc()
		return
	}
	s.endEarly(schemas.LastToken(m.Subject), "stop")
}

func (s *Service) endEarly(request, reason string) {
	if schemas.CheckRequestID(request) != nil {
		return
	}
	select {
	case s.engine.cancels <- &pb.Cancel{RequestId: request, Reason: reason}:
	case <-s.ctx.Done():
	}
}
