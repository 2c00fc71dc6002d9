package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/compute/kvcache"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// Queue is the sequences that wait, and their way to the engine.
type Queue struct {
	d        *deployment.Deployment
	replica  string
	presence *deployment.Presence
	keeper   *renewal.Keeper

	places    places
	checks    *checks
	reception *reception
	puller    *puller
	turns     *turns
	siblings  *members.Siblings
}

// New returns a queue that is not open.
func New(s Settings) *Queue {
	d := s.Deployment
	p := places{slots: newSlots(s.MaxSequences), waiting: newWaiting(), line: s.Engine.Line(), members: s.Members, replica: s.Replica}
	checks := newChecks(s)
	settler := &settler{log: s.Log, logger: d.Logger, kin: newKin(s)}
	reception := &reception{
		conn: d.Conn, log: s.Log, keeper: s.Keeper, checks: checks, capacity: &capacity{pages: s.Pages, members: s.Members, model: s.Deployment.Identity.Model, within: largerWithin},
		settler: settler, waiting: p.waiting, tasks: s.Tasks,
	}
	return &Queue{
		d: d, replica: s.Replica, presence: s.Presence, keeper: s.Keeper, places: p, checks: checks, reception: reception,
		puller: &puller{places: p, reception: reception, throttles: s.Throttles},
		turns: &turns{
			places: p, conn: d.Conn, subject: d.Subjects.Sequence(), settler: settler, engine: s.Engine, pages: s.Pages, tasks: s.Tasks, prelude: prelude{before: s.Before, stops: map[string]context.CancelFunc{}},
			claimer: &claimer{
				log: s.Log, logger: d.Logger, engine: s.Engine, slots: p.slots, waiting: p.waiting, longest: longest(d.Streams.Tokens().MaxAge),
				kept: newGrammars(d.Model),
			},
		},
	}
}

// AckWait is how long the sequences of an owner that is gone wait for the next
// one, unless a sibling gives them back before.
const AckWait = 1500 * time.Millisecond

// Open opens the stream of sequences, from which nothing is pulled yet. What is under way ends
// with own.
func (q *Queue) Open(ctx, own context.Context) (err error) {
	q.turns.ctx = own
	q.puller.queue, err = q.d.Conn.Queue(ctx, bus.QueueSettings{
		Stream: q.d.Streams.Sequences(), Name: "attention", Subject: q.d.Subjects.Sequence(), AckWait: AckWait,
		Dead: q.d.Subjects.Dead("sequence"), Replica: q.replica,
	})
	if err != nil {
		return fmt.Errorf("taking sequences: %w", err)
	}
	q.siblings = q.presence.Siblings(q.puller.queue, q.keeper.Told())
	q.reception.siblings = q.siblings
	return nil
}

// OnHoldings hears which sequences a sibling has in hand.
func (q *Queue) OnHoldings(m *nats.Msg) { q.siblings.OnTold(m) }

// See takes in which members there are now.
func (q *Queue) See(all []*pb.Member) { q.puller.company.Store(int32(companyOf(all, q.replica))) }

// Fill tells members how many sequences this replica can begin, and how long they may be.
func (q *Queue) Fill(stats map[string]float64) {
	stats[members.Places], stats[members.Waiting] = float64(q.places.free()), float64(q.places.waiting.size())
	stats[members.Context] = float64(q.checks.limits.MaxLen)
}

// Backlog is how many requests wait for their first row in a step: for their turn, while their
// logs are claimed, for pages, and for a batch. It is what this replica tells a scaler of its
// queue (pkg/policy/world, Backlog); the services' own canaries are not counted.
func (q *Queue) Backlog() int { return q.places.waiting.backlog() + q.places.line.Unstepped() }

// Take pulls sequences while there is room for them, until ctx ends.
func (q *Queue) Take(ctx context.Context) { q.puller.run(ctx) }

// Run lets sequences begin in their turn, and looks after those of siblings, until ctx ends.
func (q *Queue) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { q.turns.run(ctx) })
	running.Go(func() { q.turns.rebalance(ctx) })
	running.Go(func() { q.siblings.Run(ctx) })
}

// Cancel ends a request that waits here.
func (q *Queue) Cancel(request string) { q.turns.cancel(request) }

// Stop pulls no more.
func (q *Queue) Stop() {
	if q.puller.queue != nil {
		q.puller.queue.Stop()
	}
}

// HandBack leaves to others what waits.
func (q *Queue) HandBack() { q.turns.handBack() }

// Settings are what one replica takes sequences with.
type Settings struct {
	Deployment *deployment.Deployment
	Replica    string
	Presence   *deployment.Presence
	Log        *tokenlog.Log
	Members    Members
	Pages      *kvcache.Pool
	Keeper     *renewal.Keeper
	Engine     Engine
	// MaxSequences bounds what is handed over at once, and MaxModelLen a sequence, prompt and
	// generated tokens together; 0 is the model's limit.
	MaxSequences, MaxModelLen int
	// Throttles says that the device is slow for now: siblings are to begin what they can.
	Throttles func() bool
	// Before is waited for before a sequence is claimed; nil: nothing is.
	Before func(context.Context, *pb.Sequence)
	// Tasks are what goes on until it is done, or the replica stops.
	Tasks *sync.WaitGroup
}

// Engine is engine.Engine's part that handing sequences over needs.
type Engine interface {
	NewSequence(seq *pb.Sequence, hold *renewal.Hold, release func(ids int)) *engine.Sequence
	// Writing says what follows from what becomes of a sequence's log.
	Writing(s *engine.Sequence) tokenlog.WriterSettings
	Admit(ctx context.Context, s *engine.Sequence) error
	// Owns reports whether a request is being worked on here.
	Owns(ctx context.Context, request string) bool
	Line() *engine.Line
}

// Members are those that are seen; a members.View is.
type Members interface {
	Snapshot() []*pb.Member
	OtherKinds() []*pb.Member
	Follow(ctx context.Context, fn func([]*pb.Member))
}
