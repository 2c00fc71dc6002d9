package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/control/siblings"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/telemetry"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Service is one tokenizer replica.
type Service struct {
	d        *deployment.Deployment
	edge     *bus.Conn // where producers are heard and answered
	config   Config
	id       string
	presence *deployment.Presence
	tracer   *telemetry.Tracer
	metrics  *telemetry.Metrics

	text         *tokenizer.Tokenizer // nil if the model has none
	model        edge.Model
	log          *tokenlog.Log
	view         *members.View
	prompts      *bus.Queue
	inHand       *siblings.Holdings // prompts in hand
	siblings     *siblings.Siblings
	computing    sync.RWMutex // prompts are decoded and tokenized side by side, suspects alone
	subs         []*nats.Subscription
	shards       shardSet
	promptsSeen  sight
	admission    *admission.Admission
	probe        *probe.Probe
	servedModels servedModels
	packing      packing
	reservations admission.Reservations

	limits         edge.Limits       // of what is read
	asks, askBytes *admission.Shares // of asks that are being handed over
	decoding       decoding
	// storing bounds the tries to store one. Tests have others, as of lastAsks and handledWithin.
	storing           func(context.Context) (context.Context, context.CancelFunc)
	lastAsks, handled time.Duration
	fullWithin        time.Duration
	streams           *streams
	lookups           *admission.Shares // of replays that wait to be begun, by readers
	looking           chan struct{}     // one for each that is looked up
	pace              *pace
	cancelled         *recently
	settled           *recently     // requests that nothing more is delivered of
	mends             chan struct{} // one for each log without a beginning that is being ended
	// Requests that end soon unless attention ends them; whose caller seems to
	// be gone; and whose deadline passes.
	ending, lonely, late *timers

	// tasks are replays, asks and what is noted; ctx ends them, and asking the asks, later.
	tasks       sync.WaitGroup
	ctx, asking context.Context
	stop        context.CancelFunc
	endAsks     context.CancelFunc
}

const (
	// promptAckWait is when another replica takes over a prompt that no sibling has given
	// back: its owner was the last, or had not told of it.
	promptAckWait = 1500 * time.Millisecond
	// promptsAtOnce bounds the prompts that a replica takes at once.
	promptsAtOnce = 16
	// maxDeadlines bounds the deadlines that a replica watches for requests that wait.
	maxDeadlines = 100_000
)

// New returns a replica that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("tokenizer")
	if len(c.InboxPrefixes) == 0 {
		c.InboxPrefixes = []string{schemas.DefaultInboxPrefix}
	}
	s := &Service{
		d: d, edge: d.Edge, config: c, id: id, presence: d.NewPresence(id, "tokenizer"),
		tracer: d.Telemetry.Tracer("tokenizer", id), metrics: d.Telemetry.Metrics,
		log: tokenlog.Of(d, id), packing: newPacking(), inHand: siblings.NewHoldings(),
		limits: edge.Limits{Bytes: d.Streams.PromptBytes, Tokens: d.Model.Spec.LongestRequest()},
		asks:   admission.NewShares(asksAtOnce), askBytes: admission.NewShares(askBytes), decoding: newDecoding(), storing: storing, lastAsks: lastAsks, handled: handledWithin, fullWithin: fullWithin, cancelled: newRecently(maxCancelled, cancelledFor),
		settled: newRecently(maxSettled, settledFor), mends: make(chan struct{}, mendsAtOnce),
		ending: newTimers(maxEnding, endingAtOnce), lonely: newTimers(maxEnding, endingAtOnce), late: newTimers(maxDeadlines, endingAtOnce),
	}
	s.probe = probe.New(probe.Settings{
		Deployment: d, Replica: id, Model: &s.model, CanaryEvery: c.CanaryEvery, Ledger: &s.reservations, Owns: s.shards.has,
	})
	s.admission = admission.New(admission.Settings{
		Deployment: d, Replica: id, Tenants: c.Tenants, MaxQueued: c.MaxQueued, Probe: s.probe, Reserved: &s.reservations, Shards: s.shards.count,
	})
	s.streams = newStreams(id, s.probe.Streams.Clock.Now)
	s.lookups, s.looking, s.pace = admission.NewShares(lookupsWaiting), make(chan struct{}, lookupsAtOnce), newPace()
	return s
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Start loads the tokenizer and begins to listen.
func (s *Service) Start(ctx context.Context) (err error) {
	if err := s.load(); err != nil {
		return err
	}
	s.presence.Fill = func(stats map[string]float64) {
		stats[admission.StatReserved], stats[probe.StatLosses] = float64(s.reservations.Announced()), float64(s.probe.Canaries.Losses())
		stats[probe.StatQueued] = float64(s.probe.Sequences.Queued())
	}
	s.presence.Trouble = s.flows
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.ctx, s.stop = own, stop
	s.asking, s.endAsks = context.WithCancel(context.WithoutCancel(ctx))
	for _, a := range []*timers{s.ending, s.lonely, s.late} {
		s.tasks.Go(func() { a.run(own) })
	}
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	s.probe.See(s.view)
	s.admission.See(s.view)
	s.prompts, err = s.d.Conn.Queue(ctx, bus.QueueSettings{
		Stream: s.d.Streams.Prompts(), Name: probe.PromptGroup, AckWait: promptAckWait,
		Dead: s.d.Subjects.Dead("prompt"), Replica: s.id,
	})
	if err != nil {
		return fmt.Errorf("taking prompts: %w", err)
	}
	s.siblings = s.presence.Siblings(s.prompts, s.inHand)
	s.probe.Streams.Look(ctx, s.d.Streams.Prompts()) // sets the clock before the first deadline is judged
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.heardAtEdge(ctx); err != nil {
		return err
	}
	if err := s.d.Conn.Listening(ctx, "listening to tokenizers"); err != nil {
		return err
	}
	s.presence.SetReady(true)
	return nil
}

// load prepares text and chat encoding as far as the model has them.
func (s *Service) load() error {
	m := s.d.Model
	s.model = edge.Model{
		Vocab: m.Spec.Vocab, MaxLen: m.Spec.LongestSequence(s.config.MaxModelLen), EOS: m.Spec.EOS, Generation: m.Generation,
		Task: m.Spec.Task(), Types: m.Spec.SourceTypes(), Mask: m.Spec.Mask, Start: m.Spec.DecoderStart,
	}
	t, err := tokenizer.Open(m.File)
	if errors.Is(err, tokenizer.ErrNone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("loading the tokenizer: %w", err)
	}
	s.text, s.model.EncodeText, s.model.MaxTokenBytes = t, t.EncodePrompt, t.MaxTokenBytes()
	if id, ok := t.Mask(); ok && s.model.Mask < 0 {
		s.model.Mask = int(id)
	}
	template, err := chat.Open(m.File)
	if err != nil {
		return fmt.Errorf("loading the chat template: %w", err)
	}
	if template != nil {
		s.model.EncodeChat = (&chats{template, t, s.model.CheckText}).encode
	}
	return nil
}

func (s *Service) newDetokenizer() detokenizer {
	if s.text == nil {
		return noText{}
	}
	return s.text.NewDetokenizer(true)
}

// Run takes prompts and serves shards until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	defer s.admission.Follow()()
	ctx, leave := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer leave() // before the wait
	running.Go(func() { s.intake(ctx) })
	running.Go(func() { s.serveShards(ctx) })
	running.Go(func() { s.pack(ctx) })
	running.Go(func() { s.probe.Run(ctx) })
	running.Go(func() { s.siblings.Run(ctx) })
	return s.presence.Announce(ctx)
}

// Ready says whether a prompt that comes now can become tokens: all stages are
// there, and a token was seen to flow.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.flows()
}

// flows says why no token would come of a prompt, as far as this replica knows.
func (s *Service) flows() error {
	if err := s.edge.Ready(); err != nil {
		return fmt.Errorf("producers are not heard: %w", err)
	}
	return s.probe.Canaries.Ready()
}

// Stop ends listening and what is under way, and hands it on to the other replicas.
func (s *Service) Stop(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.unlisten(ctx)
	if s.prompts != nil {
		s.prompts.Stop()
	}
	s.stop()
	defer s.lingerOverAsks()()
	return wait(ctx, &s.tasks)
}

func wait(ctx context.Context, tasks *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for replays and asks to end: %w", ctx.Err())
	}
}
