package tokenizer

import (
	"context"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// statReserved is the name under which a replica announces what the token log
// must still take of the requests in its shards.
const statReserved = "log_reserved_bytes"

// announcedWithin is when the owner of a shard has surely announced a request
// that was accepted elsewhere.
const announcedWithin = time.Second

// reservations are the bytes that the token log must still take of requests that
// were accepted.
type reservations struct {
	mu    sync.Mutex
	own   int64 // of the requests in the shards served here: not written yet
	spent int64 // written of them since the last look at the stream
	fresh map[string]fresh
}

// fresh is a reservation made here that the shard's owner may not know of.
type fresh struct {
	bytes int64
	until time.Time
}

// need is what a request may take of the token log.
type need struct {
	bytes int64
	large bool // it stays large when it was delivered, until it is old
}

// largeShare is the part of the writable bytes that large logs may use, so that there
// is always room for small ones beside them: those give theirs back.
const largeShare = 0.5

// largeLog is from where on a log counts as large: what would not be packed, or
// takes much of a small stream.
func largeLog(bound int64) int64 { return min(maxPacked, tokenlog.Writable(bound)/16) }

// add makes a reservation if there is room for it beside all others.
func (p *reservations) add(request string, n need, others int64, l probe.Level, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	reserved := p.own + p.spent + others
	for id, f := range p.fresh {
		if now.After(f.until) {
			delete(p.fresh, id)
		} else {
			reserved += f.bytes
		}
	}
	if err := hold(l, reserved, n); err != nil {
		return err
	}
	if p.fresh == nil {
		p.fresh = map[string]fresh{}
	}
	p.fresh[request] = fresh{n.bytes, now.Add(announcedWithin)}
	return nil
}

// change says what is left of a request's reservation in a shard served here, and
// how much of it was written.
func (p *reservations) change(request string, before, left, written int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.fresh, request)
	p.own += left - before
	p.spent += written
}

// wrote says that the log's stream has taken what is no request's.
func (p *reservations) wrote(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += bytes
}

// announced is what this replica knows from its shards.
func (p *reservations) announced() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own + p.spent
}

// Written is what of that the log's stream has taken since the last look at it.
func (p *reservations) Written() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// Looked takes out what a look at the stream found there.
func (p *reservations) Looked(written int64) {
	p.mu.Lock()
	p.spent -= written
	p.mu.Unlock()
}

// hold refuses a request whose log would not fit the stream beside what is
// reserved for others.
func hold(l probe.Level, reserved int64, n need) error {
	writable, who := tokenlog.Writable(l.Bound), "requests"
	if n.large {
		writable, who = int64(largeShare*float64(writable)), "large answers"
	}
	switch {
	case l.Bound <= 0:
		return nil // it has no bound, or it is not known how full it is
	case n.bytes > writable:
		return edge.Errorf(edge.PayloadTooLarge, "the answer may take %d bytes in the token log, and %s may use %d of its %d: ask for fewer tokens, scores or logprobs (score logprobs instead of logits), or raise --log-bytes",
			n.bytes, who, writable, l.Bound)
	case l.Bytes+reserved+n.bytes > writable:
		return edge.Errorf(edge.Overloaded, "stream %s holds %d of its %d bytes, requests under way may need %d more, and this one %d; %s may use %d: %s",
			l.Stream, l.Bytes, l.Bound, reserved, n.bytes, who, writable, probe.Cure("token"))
	}
	return nil
}

// reserve keeps room in the token log for a request that is new.
func (s *Service) reserve(ctx context.Context, in *incoming, seq *pb.Sequence, bytes int64) error {
	l := s.probe.Streams.Levels.Of(s.d.Streams.Tokens().Name)
	n := need{bytes, packedBytes(seq, s.scored()) > largeLog(l.Bound)}
	refused := s.reservations.add(in.prompt.RequestId, n, s.reservedElsewhere(), l, time.Now())
	if refused == nil {
		refused = s.checkLog(in, bytes, time.Now())
	}
	return s.unlessTaken(ctx, in, refused)
}

// reservedElsewhere is what the other replicas have announced.
func (s *Service) reservedElsewhere() (bytes int64) {
	for _, m := range members.OfService(s.view.Snapshot(), "tokenizer") {
		if n := m.Stats[statReserved]; m.Id != s.id && n > 0 {
			bytes += int64(min(n, float64(s.d.Streams.Tokens().MaxBytes)))
		}
	}
	return bytes
}

// account notes that a request's log has taken a message of it. What is of another kind
// counts as no tenant's here.
func (sh *ownedShard) account(r *served, size int64) {
	if r.chain.Foreign() != nil {
		sh.s.reservations.change(r.request, 0, 0, size)
		return
	}
	r.written += size
	left := int64(0)
	if r.chain.End() == nil {
		left = max(0, sh.s.reserved(r.chain.Accept())-r.written)
	}
	sh.s.reservations.change(r.request, r.left, left, size)
	if sh.requests[r.request] == r {
		sh.s.logged(r.tenant(), size+left-r.left)
	}
	r.left = left
}

// letGo forgets the reservations of a shard that is served no more.
func (sh *ownedShard) letGo() {
	for _, r := range sh.requests {
		sh.forget(r)
	}
}

// forget counts nothing of a request any more.
func (sh *ownedShard) forget(r *served) {
	sh.s.reservations.change(r.request, r.left, 0, 0)
	sh.s.logged(r.tenant(), -r.left-r.written)
	sh.s.demand.turn(r.request)
}

// reserved is what was reserved for a request when it was accepted.
func (s *Service) reserved(a *pb.Accept) int64 {
	return int64(min(a.GetLogBytes(), uint64(s.d.Streams.Tokens().MaxBytes)))
}
