package tokenizer

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// backlogAge is how long a look at the queue lasts; what this replica adds
// meanwhile counts at once.
const backlogAge = 250 * time.Millisecond

// statQueued is the name under which a replica announces how many sequences it has queued
// that no attention replica has been given yet.
const statQueued = "sequences_queued"

// backlog is how many sequences wait for attention, as far as this replica
// knows. Asking the server for every prompt would cost more than taking it.
//
// The server counts messages, and not all of them are sequences: whoever may have the server
// store an acknowledgement can make as many as he likes. So a message counts if a
// tokenizer has queued it. What was there when this replica came, or when
// another one went away, counts as well, as nobody is here to say whose it is.
type backlog struct {
	mu     sync.Mutex
	looked time.Time
	queued queued   // at the last look
	own    []uint64 // the messages that this replica has queued since and no replica was given, in order
	// inherited is the newest message of which nobody here may know; known says that it
	// was looked for.
	inherited uint64
	known     bool
	newest    uint64 // message that a look has seen
	others    others
}

// others is what other tokenizers have queued, as they announce it.
type others struct{ replicas, queued int }

// add counts a sequence that this replica has queued as a message of their stream.
func (b *backlog) add(message uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at, found := slices.BinarySearch(b.own, message); !found {
		b.own = slices.Insert(b.own, at, message)
	}
}

// submitted is what this replica has queued itself and still waits in the stream.
func (b *backlog) submitted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.own)
}

// size is how many wait; look counts them, when the last look is too old. When
// that fails, the last one still counts.
func (b *backlog) size(now time.Time, look func() (queued, others, error)) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.looked) < backlogAge {
		return b.waiting()
	}
	b.looked = now
	if q, o, err := look(); err == nil {
		b.take(q, o)
	}
	return b.waiting()
}

// take takes in what a look has found.
func (b *backlog) take(q queued, o others) {
	if q.given < b.queued.given { // the stream, or the group's consumer, is another one
		b.own, b.known, b.newest = nil, false, 0
	}
	b.newest = max(b.newest, q.last())
	if !b.known || o.replicas < b.others.replicas {
		b.inherited, b.known = q.last(), true
	}
	b.queued, b.others = q, o
	at, found := slices.BinarySearch(b.own, q.given)
	if found {
		at++
	}
	b.own = slices.Delete(b.own, 0, at)
}

// waiting is how many requests wait in the stream, and in attention replicas.
func (b *backlog) waiting() int { return b.inStream() + b.queued.held }

// inStream counts those that tokenizers have queued, and never more than there are
// messages. Requests are spread evenly over tokenizers, so that what others announce,
// which is a moment old, may be fewer than they have by now.
func (b *backlog) inStream() int {
	theirs := max(b.others.queued, len(b.own)*b.others.replicas)
	if b.inherited > b.queued.given {
		theirs = max(theirs, int(b.inherited-b.queued.given))
	}
	seen, _ := slices.BinarySearch(b.own, b.newest+1)
	return min(len(b.own)+theirs, b.queued.pending+len(b.own)-seen)
}

// checkQueue refuses a new request when too many wait already, all of them or its
// tenant's, or its streams are nearly full.
func (s *Service) checkQueue(ctx context.Context, in *incoming) error {
	now := time.Now()
	waiting := s.waiting(ctx, now)
	refused := s.levels.check(s.d.Streams.Tokens(), s.d.Streams.Sequences())
	if refused == nil {
		refused = s.checkQuotas(in, now)
	}
	if refused == nil {
		refused = s.checkRoom(in, waiting, now)
	}
	return s.unlessTaken(ctx, in, refused)
}

// unlessTaken refuses a request if it is new. One that was accepted before is
// not, however its prompt comes again; and one that was delivered before may be
// in another replica's hands.
func (s *Service) unlessTaken(ctx context.Context, in *incoming, refused error) error {
	if refused == nil || in.again() {
		return nil
	}
	_, err := s.log.Last(ctx, in.prompt.RequestId)
	if errors.Is(err, tokenlog.ErrUnknown) {
		return refused
	}
	return err
}

// waiting is how many requests have not begun.
func (s *Service) waiting(ctx context.Context, now time.Time) int {
	return s.backlog.size(now, func() (queued, others, error) { return s.countWaiting(ctx) })
}

// countWaiting asks how many messages no attention replica has taken, how many
// sequences wait in one for their turn, and what other tokenizers have queued.
func (s *Service) countWaiting(ctx context.Context) (queued, others, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	q, err := s.pending(ctx, s.d.Streams.Sequences().Name, sequenceGroup)
	all := s.view.Snapshot()
	q.held = members.WaitingIn(all)
	return q, othersOf(all, s.id), err
}

// othersOf adds up what tokenizers beside this one announce.
func othersOf(all []*pb.Member, self string) (o others) {
	for _, m := range members.OfService(all, "tokenizer") {
		if m.Id != self {
			o.replicas++
			o.queued += announced(m, statQueued)
		}
	}
	return o
}

// announced is a count that a replica tells of itself; whatever else it says there is none.
func announced(m *pb.Member, name string) int {
	if n := m.Stats[name]; n > 0 { // which NaN is not
		return int(min(n, math.MaxInt32))
	}
	return 0
}

// lookWithin bounds a look at the queue, which every prompt waits for.
const lookWithin = time.Second
