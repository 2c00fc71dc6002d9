package admission

import (
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/control/members"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// StatReserved is the name under which a replica announces what the token log
// must still take of the requests in its shards.
const StatReserved = "log_reserved_bytes"

// AnnouncedWithin is when the owner of a shard has surely announced a request
// that was accepted elsewhere.
const AnnouncedWithin = time.Second

// Reservations are the bytes that the token log must still take of requests that
// were accepted.
type Reservations struct {
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

// MaxPacked bounds the one record that a log becomes when its end was delivered, well
// below any server's payload limit that a model's rows fit.
const MaxPacked = 512 << 10

// largeShare is the part of the writable bytes that large logs may use, so that there
// is always room for small ones beside them: those give theirs back.
const largeShare = 0.5

// LargeLog is from where on a log counts as large: what would not be packed, or
// takes much of a small stream.
func LargeLog(bound int64) int64 { return min(MaxPacked, tokenlog.Writable(bound)/16) }

// add makes a reservation if there is room for it beside all others.
func (p *Reservations) add(request string, n need, others int64, l probe.Level, now time.Time) error {
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
	p.fresh[request] = fresh{n.bytes, now.Add(AnnouncedWithin)}
	return nil
}

// Change says what is left of a request's reservation in a shard served here, and
// how much of it was written.
func (p *Reservations) Change(request string, before, left, written int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.fresh, request)
	p.own += left - before
	p.spent += written
}

// Wrote says that the log's stream has taken what is no request's.
func (p *Reservations) Wrote(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent += bytes
}

// Announced is what this replica knows from its shards.
func (p *Reservations) Announced() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.own + p.spent
}

// Written is what of that the log's stream has taken since the last look at it.
func (p *Reservations) Written() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spent
}

// Looked takes out what a look at the stream found there.
func (p *Reservations) Looked(written int64) {
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

// ReservedElsewhere is what the other replicas have announced.
func (a *Admission) ReservedElsewhere() (bytes int64) {
	for _, m := range members.OfService(a.members.Snapshot(), "tokenizer") {
		if n := m.Stats[StatReserved]; m.Id != a.replica && n > 0 {
			bytes += int64(min(n, float64(a.d.Streams.Tokens().MaxBytes)))
		}
	}
	return bytes
}
