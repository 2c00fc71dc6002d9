package tokenizer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
)

// backlogAge is how long a look at the queue lasts; what this replica adds
// meanwhile counts at once.
const backlogAge = 250 * time.Millisecond

// backlog is how many sequences wait for attention, as far as this replica
// knows. Asking the server for every prompt would cost more than taking it.
type backlog struct {
	mu     sync.Mutex
	looked time.Time
	queued queued // at the last look, and what was added since
}

// add counts a sequence that this replica has queued as a message of their stream,
// unless the last look has counted it.
func (b *backlog) add(message uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if message > b.queued.last {
		b.queued.waiting++
	}
}

// size is how many wait; look counts them, when the last look is too old. When
// that fails, the last one still counts.
func (b *backlog) size(now time.Time, look func() (queued, error)) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.looked) < backlogAge {
		return b.queued.waiting
	}
	b.looked = now
	if q, err := look(); err == nil {
		b.queued = q
	}
	return b.queued.waiting
}

// checkQueue refuses a new request when too many wait already, all of them or its
// tenant's, or its streams are nearly full.
func (s *Service) checkQueue(ctx context.Context, in *incoming) error {
	now := time.Now()
	waiting := s.backlog.size(now, func() (queued, error) { return s.countWaiting(ctx) })
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

// countWaiting asks how many sequences have not begun: those that no attention
// replica has taken, and those that wait in one for their turn.
func (s *Service) countWaiting(ctx context.Context) (queued, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	q, err := s.pending(ctx, s.d.Streams.Sequences().Name, sequenceGroup)
	q.waiting += members.WaitingIn(s.view.Snapshot())
	return q, err
}

// lookWithin bounds a look at the queue, which every prompt waits for.
const lookWithin = time.Second
