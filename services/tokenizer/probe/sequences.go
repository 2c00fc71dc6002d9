package probe

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/control/members"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// countAge is how long a look at the queue lasts; what this replica adds
// meanwhile counts at once.
const countAge = 250 * time.Millisecond

// StatQueued is the name under which a replica announces how many sequences it has queued
// that no attention replica has been given yet.
const StatQueued = "sequences_queued"

// Sequences is how many sequences wait for attention, as far as this replica
// knows. Asking the server for every prompt would cost more than taking it.
//
// The server counts messages, and not all of them are sequences: a user that may have the server
// store an acknowledgement can make any number of messages. So a message counts if a
// tokenizer has queued it. What was there when this replica came, or when
// another one went away, counts as well, as no replica is here to say whose it is.
type Sequences struct {
	replica string // this one
	stream  string
	queues  jetstream.JetStream
	members *members.View

	mu     sync.Mutex
	looked time.Time
	queued queued   // at the last look
	own    []uint64 // the messages that this replica has queued since and no replica was given, in order
	// inherited is the newest message of which no replica here may know; known says that it
	// was looked for.
	inherited uint64
	known     bool
	newest    uint64 // message that a look has seen
	others    others
}

// others is what other tokenizers have queued, as they announce it.
type others struct{ replicas, queued int }

// Add counts a sequence that this replica has queued as a message of their stream.
func (s *Sequences) Add(message uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, found := slices.BinarySearch(s.own, message); !found {
		s.own = slices.Insert(s.own, at, message)
	}
}

// Queued is what this replica has queued itself and still waits in the stream.
func (s *Sequences) Queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.own)
}

// size is how many wait; look counts them, when the last look is too old. When
// that fails, the last one still counts.
func (s *Sequences) size(now time.Time, look func() (queued, others, error)) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.looked) < countAge {
		return s.waiting()
	}
	s.looked = now
	if q, o, err := look(); err == nil {
		s.take(q, o)
	}
	return s.waiting()
}

// take takes in what a look has found.
func (s *Sequences) take(q queued, o others) {
	if q.given < s.queued.given { // the stream, or the group's consumer, is another one
		s.own, s.known, s.newest = nil, false, 0
	}
	s.newest = max(s.newest, q.last())
	if !s.known || o.replicas < s.others.replicas {
		s.inherited, s.known = q.last(), true
	}
	s.queued, s.others = q, o
	at, found := slices.BinarySearch(s.own, q.given)
	if found {
		at++
	}
	s.own = slices.Delete(s.own, 0, at)
}

// waiting is how many requests wait in the stream, and in attention replicas.
func (s *Sequences) waiting() int { return s.inStream() + s.queued.held }

// inStream counts those that tokenizers have queued, and never more than there are
// messages. Requests are spread evenly over tokenizers, so that what others announce,
// which is a moment old, may be fewer than they have by now.
func (s *Sequences) inStream() int {
	theirs := max(s.others.queued, len(s.own)*s.others.replicas)
	if s.inherited > s.queued.given {
		theirs = max(theirs, int(s.inherited-s.queued.given))
	}
	seen, _ := slices.BinarySearch(s.own, s.newest+1)
	return min(len(s.own)+theirs, s.queued.pending+len(s.own)-seen)
}

// Waiting is how many requests have not begun.
func (s *Sequences) Waiting(ctx context.Context, now time.Time) int {
	return s.size(now, func() (queued, others, error) { return s.count(ctx) })
}

// count asks how many messages no attention replica has taken, how many
// sequences wait in one for their turn, and what other tokenizers have queued.
func (s *Sequences) count(ctx context.Context) (queued, others, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	q, err := pending(ctx, s.queues, s.stream, sequenceGroup)
	all := s.members.Snapshot()
	q.held = members.WaitingIn(all)
	return q, othersOf(all, s.replica), err
}

// othersOf adds up what tokenizers beside this one announce.
func othersOf(all []*pb.Member, self string) (o others) {
	for _, m := range members.OfService(all, "tokenizer") {
		if m.Id != self {
			o.replicas++
			o.queued += announced(m, StatQueued)
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
