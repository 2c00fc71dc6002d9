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
	mu      sync.Mutex
	looked  time.Time
	waiting int
}

// add counts a sequence that this replica has queued.
func (b *backlog) add() {
	b.mu.Lock()
	b.waiting++
	b.mu.Unlock()
}

// size is how many wait; look counts them, when the last look is too old. When
// that fails, the last one still counts.
func (b *backlog) size(now time.Time, look func() (int, error)) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.looked) < backlogAge {
		return b.waiting
	}
	b.looked = now
	if n, err := look(); err == nil {
		b.waiting = n
	}
	return b.waiting
}

// checkQueue refuses a new request when too many wait already, all of them or its
// tenant's, or its streams are nearly full.
func (s *Service) checkQueue(ctx context.Context, in *incoming) error {
	now := time.Now()
	waiting := s.backlog.size(now, func() (int, error) { return s.countWaiting(ctx) })
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
func (s *Service) countWaiting(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	n, err := s.pending(ctx, s.d.Streams.Sequences().Name, sequenceGroup)
	return n + members.WaitingIn(s.view.Snapshot()), err
}

// lookWithin bounds a look at the queue, which every prompt waits for.
const lookWithin = time.Second
