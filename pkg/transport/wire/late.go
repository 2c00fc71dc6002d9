package wire

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// ErrLate says that nobody waits for rows any more.
var ErrLate = fmt.Errorf("no step waits for these rows any more: %w", context.DeadlineExceeded)

// Lateness finds rows that nobody waits for, before they cost anything: the time of
// their requests is over, or the worker that sent them has gone on. A worker computes
// one step after the other, and one layer after the other, so rows of an earlier
// layer than the newest that was seen of it are repeats that came late. Clocks of two
// machines are never compared. It is safe for concurrent use.
type Lateness struct {
	// Shape is of the model that rows belong to.
	Shape *Shape

	mu      sync.Mutex
	workers map[worker]*place
}

// worker is who sends rows: one of an attention replica's.
type worker struct {
	owner      string
	epoch      uint64
	microbatch uint32
}

// place is the newest layer of a worker's steps.
type place struct {
	step  uint64
	layer uint32
	seen  time.Time
}

const (
	// maxWorkers bounds the workers that are remembered.
	maxWorkers = 4096
	// believed is how long a place counts that is not seen again: one that was only
	// claimed must not stop a worker for good.
	believed = 10 * time.Second
)

// Check returns ErrLate for rows that arrived then and are late now. Else it takes from
// the key what has passed of its time.
func (l *Lateness) Check(k *pb.Key, arrived, now time.Time) error {
	if !Remains(k, now.Sub(arrived)) || l.passed(k, now) {
		return ErrLate
	}
	return nil
}

// Remains takes from a key the time that has passed, and reports whether any is left.
func Remains(k *pb.Key, passed time.Duration) bool {
	if k.GetRemainingMs() == 0 {
		return true
	}
	ms := max(0, passed.Milliseconds())
	if ms >= int64(k.RemainingMs) {
		return false
	}
	k.RemainingMs -= uint32(ms)
	return true
}

// passed notes where a worker is, and reports whether it was further before.
func (l *Lateness) passed(k *pb.Key, now time.Time) bool {
	if !l.Shape.places(k) {
		return false // it is refused by who checks it
	}
	of := worker{k.GetOwner(), k.GetEpoch(), k.GetMicrobatch()}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.workers[of]
	if p == nil {
		p = l.remember(of)
	}
	behind := k.GetStep() < p.step || k.GetStep() == p.step && k.GetLayer() < p.layer
	if behind && now.Sub(p.seen) < believed {
		return true
	}
	p.step, p.layer, p.seen = k.GetStep(), k.GetLayer(), now
	return false
}

// places reports whether a key can be of a worker's place: nothing else is remembered.
func (s *Shape) places(k *pb.Key) bool {
	return k.GetModel() == s.Model && int64(k.GetLayer()) < int64(len(s.MoE)) && len(k.GetOwner()) <= schemas.MaxReplicaID
}

// remember makes room for a worker; l.mu is held. Forgetting costs nothing but rows
// that are computed in vain.
func (l *Lateness) remember(of worker) *place {
	if l.workers == nil || len(l.workers) >= maxWorkers {
		l.workers = map[worker]*place{}
	}
	p := &place{}
	l.workers[of] = p
	return p
}
