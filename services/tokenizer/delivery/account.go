package delivery

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

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
		left = max(0, sh.s.logBytes(r.chain.Accept())-r.written)
	}
	sh.s.reserved.Change(r.request, r.left, left, size)
	if sh.requests[r.request] == r {
		sh.s.ledger.Logged(r.tenant(), size+left-r.left)
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
	sh.s.reserved.Change(r.request, r.left, 0, 0)
	sh.s.ledger.Logged(r.tenant(), -r.left-r.written)
	sh.s.ledger.Turn(r.request)
}

// logBytes is what was reserved for a request when it was accepted.
func (c *common) logBytes(a *pb.Accept) int64 {
	return int64(min(a.GetLogBytes(), uint64(c.d.Streams.Tokens().MaxBytes)))
}
