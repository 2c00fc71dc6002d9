package scaler

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

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

// Begun returns how many requests have begun, and how many of them by their own plans.
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
	id    string
	own   bool          // gates go by it; else the plan in force stays
	ended chan struct{} // closed when own says which
}

// await plans for a request, and returns when gates go by that: true, or when the request is to go
// by the plan in force: false.
func (r *renter) await(ctx context.Context, s *pb.Sequence) bool {
	next := &turn{id: s.RequestId, ended: make(chan struct{})}
	r.mu.Lock()
	of := r.bills.trace(s.RequestId)
	r.bills.open(of, s.RequestId, len(s.PromptIds)) //nolint:contextcheck // a span of the request, whose trace outlives this call
	r.mu.Unlock()
	r.admit(heard{s, trace.SpanContextFromContext(of)}, next) //nolint:contextcheck // as above
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		r.refresh()
		r.wake(time.Now())
		select {
		case <-next.ended:
			return next.own
		case <-ctx.Done():
			return r.leave(next)
		case <-tick.C:
		}
	}
}

// leave has a request wait no longer; true: its plan came just now.
func (r *renter) leave(t *turn) (own bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turn == t {
		r.log.Warn("a request does not wait longer for its plan, and goes by the one in force", "request", t.id)
		r.end(t, false)
	}
	return t.own
}

// settle says what became of a decision for a request that waited before it: it begins when all
// gates go by the plan, or, beside an error, by the plan in force. main is the memory of the host
// beside attention.
func (r *renter) settle(t *turn, goBy bool, main float64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if goBy {
		r.bills.main = main
	}
	if t == r.turn && (goBy || err != nil) {
		r.end(t, err == nil)
	}
}

// end has a request begin, which is billed by the plan that gates go by. r.mu is held.
func (r *renter) end(t *turn, own bool) {
	if t == nil {
		return
	}
	r.bills.rent(t.id, r.bills.main)
	t.own = own
	close(t.ended)
	r.turn = nil
}
