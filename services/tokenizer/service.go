package tokenizer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
	"github.com/switchyard/switchyard/pkg/request/calls"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/intake"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// Service is one tokenizer replica: the four rooms, and what they share.
type Service struct {
	d        *deployment.Deployment
	config   Config
	id       string
	presence *deployment.Presence
	view     *members.View
	// Model says what can be asked of it, from Start on.
	Model edge.Model
	text  *tokenizer.Tokenizer // nil if the model has none

	Probe     *probe.Probe
	Admission *admission.Admission
	Delivery  *delivery.Delivery
	Intake    *intake.Intake
	reserved  admission.Reservations

	// HandledWithin bounds the time in which Stop handles what has come by subscriptions.
	HandledWithin time.Duration
	subs          subscriptions
	// tasks are replays, asks, prompts and what is noted; stop ends them, but asks, which go
	// on a while.
	tasks sync.WaitGroup
	stop  context.CancelFunc
}

// handledWithin is a tokenizer's HandledWithin.
const handledWithin = time.Second

// New returns a replica that is not started.
func New(d *deployment.Deployment, c Config) *Service {
	id := d.ReplicaID("tokenizer")
	if len(c.InboxPrefixes) == 0 {
		c.InboxPrefixes = []string{schemas.DefaultInboxPrefix}
	}
	s := &Service{d: d, config: c, id: id, presence: d.NewPresence(id, "tokenizer"), HandledWithin: handledWithin, subs: subscriptions{d: d}}
	s.Probe = probe.New(probe.Settings{
		Deployment: d, Replica: id, Model: &s.Model, CanaryEvery: c.CanaryEvery, Ledger: &s.reserved,
		Owns: func(request string) bool { return s.Delivery.Shards.Owns(request) },
	})
	s.Admission = admission.New(admission.Settings{
		Deployment: d, Replica: id, Tenants: c.Tenants, MaxQueued: c.MaxQueued, Probe: s.Probe, Reserved: &s.reserved,
		Shards: func() int { return s.Delivery.Shards.Count() },
	})
	log, tracer := tokenlog.Of(d, id), d.Telemetry.Tracer("tokenizer", id)
	s.Delivery = delivery.New(delivery.Settings{
		Deployment: d, Replica: id, Presence: s.presence, Tracer: tracer, Log: log, InboxPrefixes: c.InboxPrefixes,
		Now: s.Probe.Streams.Clock.Now, Detokenizer: s.newDetokenizer, Calls: func() *calls.Syntax { return s.Model.Calls }, Ledger: s.Admission, Reserved: &s.reserved, Canaries: s.Probe.Canaries, Tasks: &s.tasks,
	})
	s.Intake = intake.New(intake.Settings{
		Deployment: d, Replica: id, Presence: s.presence, Tracer: tracer, Log: log, Model: &s.Model, Version: c.Version,
		Text:  func() *tokenizer.Tokenizer { return s.text },
		Probe: s.Probe, Admission: s.Admission, Delivery: s.Delivery, Tasks: &s.tasks, Keep: s.subs.keep,
	})
	return s
}

// Name is the replica's id.
func (s *Service) Name() string { return s.id }

// Members are those that the replica sees, from Start on.
func (s *Service) Members() *members.View { return s.view }

// Start loads the tokenizer and begins to listen.
func (s *Service) Start(ctx context.Context) (err error) {
	if s.Model, s.text, err = intake.Read(s.d.Model, s.config.MaxModelLen); err != nil {
		return err
	}
	s.Model.OwnExperts = s.config.OwnExperts
	s.presence.Fill, s.presence.Trouble = s.announce, s.flows
	own, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if s.view, err = s.presence.Watch(own); err != nil {
		return err
	}
	s.Probe.See(s.view)
	s.Admission.See(s.view)
	s.Delivery.Begin(own, s.view)
	if err := s.Intake.Begin(ctx, own, s.view); err != nil {
		return err
	}
	s.Probe.Streams.Look(ctx, s.d.Streams.Prompts()) // sets the clock before the first deadline is judged
	if err := s.listen(ctx); err != nil {
		return err
	}
	s.presence.SetReady(true)
	return nil
}

// announce tells the others what this replica has under way.
func (s *Service) announce(stats map[string]float64) {
	stats[admission.StatReserved], stats[probe.StatLosses] = float64(s.reserved.Announced()), float64(s.Probe.Canaries.Losses())
	stats[probe.StatQueued] = float64(s.Probe.Sequences.Queued())
}

func (s *Service) newDetokenizer() delivery.Detokenizer {
	if s.text == nil {
		return delivery.NoText{}
	}
	return s.text.NewDetokenizer(true)
}

// listen opens what producers reach without JetStream, and what tokenizers
// hear from each other.
func (s *Service) listen(ctx context.Context) error {
	if err := s.Intake.Edge.Listen(); err != nil {
		return err
	}
	heard := append(s.Delivery.Listeners(), delivery.Listener{Subject: s.d.Subjects.AnyHoldings("tokenizer"), Handle: s.Intake.Prompts.OnHoldings})
	for _, l := range heard {
		if err := s.subs.keep(s.d.Conn.Hear(l.Subject, l.Group, l.Handle)); err != nil {
			return err
		}
	}
	if err := s.Intake.Edge.Heard(ctx); err != nil {
		return err
	}
	return s.d.Conn.Listening(ctx, "listening to tokenizers")
}

// Run takes prompts and serves shards until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	defer s.Admission.Follow()()
	tasks := lifecycle.Serving(ctx)
	tasks.Go(s.Intake.Prompts.Run)
	tasks.Go(s.Delivery.Run)
	tasks.Go(s.Probe.Run)
	return tasks.Run(s.presence.Announce)
}

// Ready reports whether a prompt that comes now can become tokens: all stages are
// there, and a token was seen to flow.
func (s *Service) Ready() error {
	if err := s.presence.Reachable(); err != nil {
		return err
	}
	return s.flows()
}

// flows says why no token would come of a prompt, as far as this replica knows.
func (s *Service) flows() error {
	if err := s.d.Edge.Ready(); err != nil {
		return fmt.Errorf("producers are not heard: %w", err)
	}
	if err := s.Probe.Paused(); err != nil {
		return err
	}
	return s.Probe.Canaries.Ready()
}

// Stop ends listening and what is under way, and hands it on to the other replicas.
func (s *Service) Stop(ctx context.Context) error {
	if s.stop == nil {
		return nil
	}
	s.subs.end(ctx, s.HandledWithin)
	end := s.Intake.Stop()
	defer end()
	s.stop()
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

// Config is what an operator sets.
type Config struct {
	// MaxModelLen bounds a sequence, prompt and generated tokens together; 0 is the model's limit.
	MaxModelLen int
	// MaxQueued is how many sequences may wait for attention before prompts are refused as overload.
	MaxQueued int
	// InboxPrefixes begin the reply subjects that ask and replay answer to;
	// none is NATS's default, schemas.DefaultInboxPrefix.
	InboxPrefixes []string
	// Tenants are what tenants may have, by name; EveryoneElse is what others may.
	Tenants map[string]Quota
	// CanaryEvery is how long no token may flow before a request of one token is sent
	// to see whether one can; 0: none is, and no token need flow to be ready.
	CanaryEvery time.Duration
	// OwnExperts says that no expert stands in for another one in a brownout for requests that
	// do not say.
	OwnExperts bool
	// Version of the build, as semantic versioning writes it: NATS services say it.
	Version string
}

// Reload has tenants have what another Config says, from now on.
func (s *Service) Reload(own any) {
	if c, is := own.(Config); is {
		s.Admission.SetQuotas(c.Tenants)
	}
}

// Quota is what a tenant may have.
type Quota = admission.Quota

// EveryoneElse names the quota of tenants that have none of their own.
const EveryoneElse = admission.EveryoneElse

// DefaultMaxQueued keeps the wait within what a producer bears.
const DefaultMaxQueued = 1024

// subscriptions end with the replica.
type subscriptions struct {
	d   *deployment.Deployment
	all []*nats.Subscription
}

// keep has a subscription end with the replica.
func (s *subscriptions) keep(sub *nats.Subscription, err error) error {
	if err == nil {
		s.all = append(s.all, sub)
	}
	return err
}

// end ends the subscriptions, and returns when what has come by them is handled, or after a
// while: a replay that was asked for at the last moment is handed on like the others.
func (s *subscriptions) end(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var handled []chan struct{}
	for _, sub := range s.all {
		done := make(chan struct{})
		sub.SetClosedHandler(func(string) { close(done) })
		if s.d.Edge.Connected() && s.d.Conn.Connected() && sub.Drain() == nil {
			handled = append(handled, done)
		}
	}
	for _, done := range handled {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	for _, sub := range s.all {
		_ = sub.Unsubscribe() // fails when it is already gone
	}
}

// parseTenants reads what tenants may have, each as NAME:weight=4,waiting=100,requests=60,tokens=60000,log=1GiB.
func parseTenants(texts []string) (map[string]Quota, error) {
	all := map[string]Quota{}
	for _, text := range texts {
		name, quota, err := parseTenant(text)
		if _, twice := all[name]; twice {
			err = fmt.Errorf("%s is there twice", name)
		}
		if err != nil {
			return nil, fmt.Errorf("--tenant %q: %w; write it as acme:weight=4,waiting=100,requests=60,tokens=60000,log=1GiB", text, err)
		}
		all[name] = quota
	}
	return all, nil
}

func parseTenant(text string) (name string, q Quota, err error) {
	name, settings, ok := strings.Cut(text, ":")
	if !ok {
		return name, q, fmt.Errorf("it has no ':' behind the name")
	}
	if err := schemas.CheckTenant(name); err != nil && name != EveryoneElse {
		return name, q, err
	}
	for setting := range strings.SplitSeq(settings, ",") {
		key, value, _ := strings.Cut(setting, "=")
		if err := setQuota(&q, key, value); err != nil {
			return name, q, err
		}
	}
	return name, q, nil
}

// setQuota sets one of a tenant's bounds; what is there must be above 0.
func setQuota(q *Quota, key, value string) error {
	bits := 31
	if key == "tokens" {
		bits = 53 // as much as is exact
	}
	n, err := strconv.ParseUint(value, 10, bits)
	switch key {
	case "weight":
		q.Weight = uint32(n) //nolint:gosec // it has 31 bits
	case "waiting":
		q.Waiting = int(n) //nolint:gosec // likewise
	case "requests":
		q.RequestsPerMinute = int64(n) //nolint:gosec // likewise
	case "tokens":
		q.TokensPerMinute = int64(n) //nolint:gosec // 53
	case "log":
		q.LogBytes, err = flagvalue.Bytes("tenant", value)
		n = uint64(max(0, q.LogBytes)) //nolint:gosec // it is not below 0
	default:
		return fmt.Errorf("%q is none of weight, waiting, requests, tokens and log", key)
	}
	if err != nil || n == 0 {
		return fmt.Errorf("%s is %q; it must be a number above 0", key, value)
	}
	return nil
}
