package scaler

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/plan"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Turns have each request wait for a plan of its own, where attention has one at a time and is in
// the scaler's process: attention asks before a request begins, and the scaler that plans answers
// when all gates go by the request's plan.
//
//	attention ─Before─▶ foretell ─▶ b, w, x, y, z ─▶ plan bucket ─▶ hosts start, gates switch ─▶ begin
//
// Without a scaler that plans, or with one that is too late, a request goes by the plan in force.
type Turns struct {
	mu       sync.Mutex
	by       *renter
	own, all int
}

// Begun is how many requests have begun, and how many of them by their own plans.
func (t *Turns) Begun() (own, all int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own, t.all
}

// lookAgain is how often gates are looked at while a request waits.
const lookAgain = 25 * time.Millisecond

// Before returns when a request may begin.
func (t *Turns) Before(ctx context.Context, s *pb.Sequence) {
	t.mu.Lock()
	by := t.by
	t.all++
	t.mu.Unlock()
	if by == nil || len(s.PromptIds) == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, time.Duration(by.rent.SLO.TTFT*float64(time.Second)))
	defer stop()
	if by.await(ctx, s) {
		t.mu.Lock()
		t.own++
		t.mu.Unlock()
	}
}

// answer has a renter plan from now on, unless it is nil; where has is given, only in its place.
func (t *Turns) answer(by, has *renter) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if has == nil || t.by == has {
		t.by = by
	}
}

// turn is a request that waits for its plan.
type turn struct {
	id      string
	decided bool
	ready   chan struct{}
}

// await plans for a request, and returns when gates go by that, or ctx ends: false.
func (r *renter) await(ctx context.Context, s *pb.Sequence) bool {
	next := &turn{id: s.RequestId, ready: make(chan struct{})}
	r.admit(s, next)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		r.refresh()
		r.wake(time.Now())
		select {
		case <-next.ready:
			return true
		case <-ctx.Done():
			r.log.Warn("a request does not wait longer for its plan, and goes by the one in force", "request", s.RequestId)
			return false
		case <-tick.C:
		}
	}
}

// took says what became of a decision for the request that waits: it begins when the plan was
// written and all gates go by it, which the next look tells. r.mu is held.
func (r *renter) took(k plan.Known, main float64) {
	t := r.turn
	switch {
	case t == nil:
		return
	case !t.decided:
		t.decided = true
		r.bills.rent(t.id, main)
		return
	}
	applied := r.applied(k)
	for layer, in := range k.InForce {
		if applied[layer] < in.Version {
			return
		}
	}
	if len(k.InForce) > 0 {
		close(t.ready)
		r.turn = nil
	}
}
