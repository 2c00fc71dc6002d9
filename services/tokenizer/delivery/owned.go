package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/lease"
	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

const (
	// Requests that were delivered to their end are remembered: this many, for this long.
	maxSettled, settledFor = 20_000, 10 * time.Minute
	// mendsAtOnce bounds the logs without a beginning that are ended at a time.
	mendsAtOnce = 16
)

// owner is what the owner of shards works with.
type owner struct {
	*common
	sender   *Sender
	endings  *Endings
	presence *deployment.Presence
	ledger   *admission.Admission
	reserved *admission.Reservations
	canaries *probe.Canaries

	packing *packing
	settled *recently     // requests that nothing more is delivered of
	mends   chan struct{} // one for each log without a beginning that is being ended
}

func newOwner(c *common, s Settings, sender *Sender, endings *Endings) *owner {
	return &owner{
		common: c, sender: sender, endings: endings, presence: s.Presence, ledger: s.Ledger, reserved: s.Reserved, canaries: s.Canaries,
		packing: newPacking(c, s.Ledger), settled: newRecently(maxSettled, settledFor), mends: make(chan struct{}, mendsAtOnce),
	}
}

// ownedShard is the requests under way in a shard while its lease is held.
type ownedShard struct {
	s        *owner
	shard    int
	held     *lease.Held
	mu       sync.Mutex // what follows is the follower's, but for a look at what is under way
	requests map[string]*served
	swept    time.Time // when requests were looked for whose logs have aged
}

// served is one request that is under way.
type served struct {
	request string
	chain   tokenlog.Chain
	passed  bool // over a message that is no record of it
	ending  bool // because its log is not whole
	lost    bool // records of its log are gone since the chain took them
	answer  *answer
	packer  tokenlog.Packer

	written, left int64 // bytes of its log, and those that are reserved for it besides

	newest  time.Time // when its newest record was stored
	claimed bool      // it had its turn
	waits   bool      // as admission has it
	runs    bool      // the same
}

func (r *served) tenant() string { return schemas.FlowOf(r.chain.Opened()).Tenant }

// follow makes chunks of the shard's records until ctx ends. In a stream that was made anew, or has lost its
// end, it goes on with what it has not read of it.
func (sh *ownedShard) follow(ctx context.Context) error {
	place := sh.held.Position()
	if place.Incarnation == 0 { // of no stream, so of none of its messages
		place = bus.Place{}
	}
	for {
		err := sh.s.log.FollowShard(ctx, sh.shard, place, func(request string, e tokenlog.Entry, err error) {
			// The next owner begins behind the position: at what was not delivered.
			if ctx.Err() == nil && sh.take(ctx, request, e, err) {
				sh.held.SetPosition(bus.Place{Incarnation: e.Incarnation, Sequence: e.Seq})
			}
		})
		if !errors.Is(err, bus.ErrReplaced) {
			return err
		}
		place = sh.lost(ctx, err)
	}
}

// take delivers what a message completes. It is false when ctx ended before
// that was done: it is for the next owner then.
func (sh *ownedShard) take(ctx context.Context, request string, e tokenlog.Entry, unreadable error) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.sweep(e.Time)
	if unreadable != nil {
		sh.passOver(request, e, unreadable)
		return true
	}
	r, ended := sh.requests[request], false
	if r != nil && r.chain.Foreign() != nil && e.Record.GetPacked() != nil {
		sh.forget(r)
		delete(sh.requests, request)
		return true // the replica that ended it has told its producer
	}
	switch {
	case r == nil && sh.isLate(request, e.Record):
		return true
	case r == nil:
		if r = sh.begin(ctx, request, e); r == nil {
			return ctx.Err() == nil
		}
		ended = r.chain.End() != nil
	case r.lost && !sh.rejoin(ctx, r, e.Seq):
		return ctx.Err() == nil
	}
	records, err := r.chain.Take(e.Record)
	sh.keep(r, ended, e)
	if err != nil {
		sh.s.log.Pass(request, e, err, &r.passed)
		sh.mend(ctx, r)
	}
	sh.account(r, e.Size)
	sh.count(r, records)
	for _, record := range records {
		if !sh.advance(ctx, r, record) {
			return false
		}
	}
	sh.close(r, e.Seq)
	return true
}

// passOver notes a message that is no record. It changes no request, and nothing is read
// or kept for it: every user who can have the server write an acknowledgement can make many.
func (sh *ownedShard) passOver(request string, e tokenlog.Entry, why error) {
	passed := new(bool)
	if r := sh.requests[request]; r != nil {
		passed = &r.passed
	}
	sh.s.log.Pass(request, e, why, passed)
	sh.s.reserved.Wrote(e.Size)
}

// isLate reports whether a record is of a request that was delivered to its end: the replica
// that packed its log had done so, or the request is among those that were settled lately.
func (sh *ownedShard) isLate(request string, record *pb.Record) bool {
	return record.GetPacked() != nil || record.GetAccept() == nil && sh.s.settled.has(request, time.Now())
}

// keep holds a request that is under way. One whose acceptance is gone has no reader to
// which anything could be delivered, and one that had ended before has its answer.
func (sh *ownedShard) keep(r *served, ended bool, e tokenlog.Entry) {
	r.newest = e.Time
	switch {
	case sh.requests[r.request] == r:
	case ended || r.chain.Accept() == nil && r.chain.Foreign() == nil:
		sh.s.settled.add(r.request, time.Now())
	default:
		sh.requests[r.request] = r
		sh.s.ledger.Logged(r.tenant(), r.written)
	}
}

// gigabyteSeconds are those of a request that has ended.
func (r *served) gigabyteSeconds() float64 {
	if r.answer == nil {
		return 0
	}
	return r.answer.usage(r.chain.End()).GetExpertGbS()
}

// sweepEvery is how often a shard looks for requests whose logs have aged.
const sweepEvery = time.Minute

// sweep lets go of requests whose newest record is older than records are kept: no
// replica can go on with them, and one that ends such a request opens its log again.
func (sh *ownedShard) sweep(now time.Time) {
	if now.Sub(sh.swept) < sweepEvery {
		return
	}
	sh.swept = now
	for request, r := range sh.requests {
		if now.Sub(r.newest) > sh.s.d.Streams.Tokens().MaxAge {
			sh.forget(r)
			delete(sh.requests, request)
		}
	}
}

// count tells admission what a request is about: whether it waits for its
// turn, and when it is done.
func (sh *ownedShard) count(r *served, records []*pb.Record) {
	if sh.requests[r.request] != r {
		return // it had ended before
	}
	if schemas.FlowOf(r.chain.Accept()).IsCanary() {
		sh.s.canaries.Logged(r.request, records)
		return
	}
	for _, record := range records {
		r.claimed = r.claimed || record.GetClaim() != nil
	}
	accept, end := r.chain.Accept(), r.chain.End()
	if waits := accept != nil && end == nil && !r.claimed; waits != r.waits {
		if r.waits = waits; waits {
			sh.s.ledger.Waits(r.request, accept)
		} else {
			sh.s.ledger.Turn(r.request)
		}
	}
	if end == nil && r.claimed && !r.runs {
		r.runs = true
		sh.s.ledger.Runs(r.request, accept)
	}
	if end != nil {
		sh.s.ledger.Ended(r.request, accept, end, r.claimed, r.chain.Tokens())
		sh.s.ledger.Charge(accept, r.chain.Tokens(), r.gigabyteSeconds())
	}
}

// begin takes up a request whose record comes first, or whose beginning an
// earlier owner served.
func (sh *ownedShard) begin(ctx context.Context, request string, e tokenlog.Entry) *served {
	r := &served{request: request, chain: sh.s.log.NewChain(), packer: tokenlog.Packer{Limit: sh.s.packing.limit()}}
	if e.Record.GetAccept() == nil && !sh.rebuild(ctx, r, e.Seq) {
		return nil
	}
	return r
}

// rebuild takes in what of a request lies before a message.
func (sh *ownedShard) rebuild(ctx context.Context, r *served, before uint64) bool {
	history, chain, err := sh.s.log.Read(ctx, r.request, before)
	if err != nil {
		if ctx.Err() == nil {
			sh.s.d.Logger.Warn("reading a request's log", "request", r.request, "error", err)
		}
		return false
	}
	r.chain = chain
	for _, e := range history {
		r.written += e.Size
		r.claimed = r.claimed || e.Record.GetClaim() != nil
		sh.push(r, e.Record)
	}
	return true
}

// push takes a record in and returns the chunk that it completes, or nil.
func (sh *ownedShard) push(r *served, record *pb.Record) *pb.Chunk {
	r.packer.Add(record)
	if a := record.GetAccept(); a != nil {
		r.answer = sh.s.answer(r.request, a)
		return nil
	}
	if r.answer == nil {
		return nil
	}
	return r.answer.push(record)
}

// advance takes a record in, and delivers the chunk that it completes.
func (sh *ownedShard) advance(ctx context.Context, r *served, record *pb.Record) (delivered bool) {
	s := sh.s
	if c := sh.push(r, record); c != nil && !s.sender.insist(ctx, r.answer, c) {
		return false
	}
	if record.GetToken() != nil && r.answer != nil {
		s.presence.Add(members.Chunks, 1)
		if r.answer.stopped {
			s.endings.signal(s.endings.d.Subjects.Stop(r.request)) // again with every further token, should it get lost
		}
	}
	return true
}

// close lets go of a request that has ended and was delivered. end is the
// sequence of its last record.
func (sh *ownedShard) close(r *served, end uint64) {
	if r.chain.End() == nil {
		return
	}
	if sh.requests[r.request] == r {
		delete(sh.requests, r.request)
		sh.s.settled.add(r.request, time.Now())
		sh.s.endings.overdue.forget(r.request)
		sh.s.ledger.Logged(r.tenant(), -r.left-r.written)
		sh.s.ledger.Kept(r.tenant(), r.written, time.Now())
		sh.s.packing.add(packJob{request: r.request, packed: r.packer.Packed(), end: end, tenant: r.tenant(), size: r.written})
	}
}

// mend has a request whose log is not whole computed again, or ends it, once.
func (sh *ownedShard) mend(ctx context.Context, r *served) {
	if r.chain.Broken() == nil || r.chain.End() != nil || r.ending {
		return
	}
	broken := r.chain.Broken()
	request, opened := r.request, r.chain.Accept()
	if errors.Is(broken, tokenlog.ErrOtherTokens) {
		sh.endChanged(ctx, r, broken)
		return
	}
	if opened != nil {
		r.ending = true
		sh.s.tasks.Go(func() { sh.s.recomputeOrEnd(ctx, request, opened, broken) })
		return
	}
	select {
	case sh.s.mends <- struct{}{}:
		sh.s.tasks.Go(func() {
			defer func() { <-sh.s.mends }()
			sh.s.endBroken(ctx, request, nil, edge.Errorf(edge.Internal, "the request's token log is not whole: %v", broken))
		})
	default: // no replica has seen the log's beginning, and its next record comes here again
	}
}

// account notes that a request's log has taken a message of it. What is of another kind
// counts as no tenant's here.
func (sh *ownedShard) account(r *served, size int64) {
	if r.chain.Foreign() != nil {
		sh.s.reserved.Change(r.request, 0, 0, size)
		return
	}
	r.written += size
	left := int64(0)
	if r.chain.End() == nil {
		left = max(0, int64(min(r.chain.Accept().GetLogBytes(), uint64(sh.s.d.Streams.Tokens().MaxBytes)))-r.written)
	}
	sh.s.reserved.Change(r.request, r.left, left, size)
	if sh.requests[r.request] == r {
		sh.s.ledger.Logged(r.tenant(), size+left-r.left)
	}
	r.left = left
}

// letGo forgets the reservations of a shard that is served no more.
func (sh *ownedShard) letGo() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, r := range sh.requests {
		sh.forget(r)
	}
}

// forget counts nothing of a request any more.
func (sh *ownedShard) forget(r *served) {
	sh.s.reserved.Change(r.request, r.left, 0, 0)
	sh.s.ledger.Logged(r.tenant(), -r.left-r.written)
	sh.s.ledger.Gone(r.request)
}

// endBroken ends a request whose log no replica can go on with. It tries until ctx
// ends: the stream may be full.
func (c *common) endBroken(ctx context.Context, request string, opened *pb.Accept, why *edge.Error) {
	end := &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)}
	for {
		err := c.log.End(ctx, request, opened, end)
		switch {
		case err == nil, errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrForeign), ctx.Err() != nil:
			return
		case !bus.IsFull(err):
			c.d.Logger.Warn("ending a request whose log is not whole; trying again", "request", request, "error", err)
		}
		if pause.For(ctx, time.Second) != nil {
			return
		}
	}
}
