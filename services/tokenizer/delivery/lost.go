package delivery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// A server may lose what it has acknowledged. Attention writes again what it has of logs (tokenlog.Writer). What
// nobody has in hand any more the owner of its shard gives to attention once more, as its log says that it was asked:
// its answer is computed from there, or from the prompt, and is the same.

const (
	// reviveAfter is how long whoever has a request may take to go on with it, after its log lost records.
	reviveAfter = 3 * time.Second
	// lossEvery is how often it is looked whether the stream of sequences has lost some.
	lossEvery = time.Second
	// reviveTries bounds how often that is tried of a request, reviveAfter apart.
	reviveTries = 20
)

// lost notes that records of the shard are gone, and returns the place to go on from.
func (sh *ownedShard) lost(ctx context.Context, err error) (from bus.Place) {
	var end *bus.LostEndError
	if errors.As(err, &end) {
		from = end.Left
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.s.d.Logger.Error("the server has lost records of token logs that it had stored; what is gone is written or computed again",
		"shard", sh.shard, "requests", len(sh.requests), "error", err)
	for _, r := range sh.requests {
		sh.forget(r)
		r.left, r.written, r.waits, r.lost = 0, 0, false, true
	}
	sh.s.tasks.Go(func() { sh.revive(ctx, "TOKENS", true) })
	return from
}

// rejoin takes in what is left of a request's log before a message.
func (sh *ownedShard) rejoin(ctx context.Context, r *served, before uint64) bool {
	chain, size, err := sh.s.log.Rejoin(ctx, r.request, r.chain, before)
	if err != nil {
		if ctx.Err() == nil {
			sh.s.d.Logger.Warn("reading what is left of a request's log", "request", r.request, "error", err)
		}
		return false
	}
	r.chain, r.written, r.lost = chain, size, false
	sh.s.ledger.Logged(r.tenant(), size)
	return true
}

// underway are the requests of the shard that have not ended, as they were opened. What was delivered to its end lately
// has no acceptance here: its log may have lost that end.
func (sh *ownedShard) underway() map[string]*pb.Accept {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	all := map[string]*pb.Accept{}
	for _, request := range sh.s.settled.names() {
		all[request] = nil
	}
	for request, r := range sh.requests {
		if all[request] = r.chain.Opened(); all[request] == nil {
			delete(all, request) // begun by who saw its acceptance
		}
	}
	return all
}

// revive gives attention what nobody goes on with: after a while of those that wait for their log's next record, or
// all that have not ended.
func (sh *ownedShard) revive(ctx context.Context, lost string, idle bool) {
	state, err := sh.s.log.State(ctx)
	for ; err != nil; state, err = sh.s.log.State(ctx) { // the server may only just be back
		if pause.For(ctx, lossEvery) != nil {
			return
		}
	}
	if pause.For(ctx, reviveAfter) != nil {
		return
	}
	still := func(last uint64) bool { return !idle || last <= state.Last }
	revived, left := 0, sh.underway()
	for try := 1; len(left) > 0 && try <= reviveTries; try++ {
		for request, opened := range left {
			did, err := sh.s.again(ctx, request, opened, still, lost+strconv.FormatUint(state.Last, 10))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				sh.s.d.Logger.Warn("giving a request to attention again", "request", request, "try", try, "of", reviveTries, "error", err)
				continue
			case did:
				revived++
			}
			delete(left, request)
		}
		if len(left) > 0 && pause.For(ctx, reviveAfter) != nil {
			return
		}
	}
	if revived > 0 {
		sh.s.d.Logger.Warn("requests were given to attention again, whose records the server has lost", "shard", sh.shard, "stream", lost, "requests", revived)
	}
}

// again gives a request to attention once more, if it has not ended and stands still by its log's last message. opened
// is nil where only its log may know it.
func (s *owner) again(ctx context.Context, request string, opened *pb.Accept, still func(last uint64) bool, why string) (bool, error) {
	last, err := s.log.Last(ctx, request)
	gone := errors.Is(err, tokenlog.ErrUnknown)
	switch {
	case gone && opened == nil: // its answer was delivered
		return false, nil
	case err != nil && !gone, err == nil && !still(last):
		return false, err
	}
	if !gone {
		_, chain, err := s.log.Read(ctx, request, math.MaxUint64)
		if err != nil || chain.End() != nil || chain.Foreign() != nil {
			return false, err
		}
		if chain.Accept() != nil {
			opened = chain.Accept()
		}
	}
	if opened == nil || opened.Lost {
		return false, nil
	}
	return true, s.recompute(ctx, request, opened, why)
}

// recompute makes a log whole as far as it can be, and has attention go on from there. A request that cannot be computed
// again is ended: its producer is told what is gone.
func (c *common) recompute(ctx context.Context, request string, opened *pb.Accept, why string) error {
	err := c.log.Restart(ctx, request, opened)
	switch {
	case errors.Is(err, tokenlog.ErrNotWhole):
		c.endBroken(ctx, request, opened, edge.Errorf(edge.Internal, "the server has lost records of the request, and they cannot be computed again: %v", err))
		return nil
	case errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrForeign):
		return nil
	case err != nil:
		return fmt.Errorf("beginning its log anew: %w", err)
	}
	seq := proto.CloneOf(opened.Sequence)
	seq.Identity, seq.RequestId, seq.Accept = opened.Identity, request, proto.CloneOf(opened)
	seq.Accept.Sequence = nil
	header := nats.Header{nats.MsgIdHdr: {request + "." + why}} // once for each loss, whoever notices it
	if _, err := c.d.Conn.Store(ctx, c.d.Subjects.Sequence(), seq, header); err != nil {
		return fmt.Errorf("handing its sequence to attention: %w", err)
	}
	return nil
}

// recomputeOrEnd has a request whose log is not whole computed again, or ends it.
func (c *common) recomputeOrEnd(ctx context.Context, request string, opened *pb.Accept, broken error) {
	if err := c.recompute(ctx, request, opened, "gap"); err != nil {
		c.endBroken(ctx, request, opened, edge.Errorf(edge.Internal, "the request's token log is not whole: %v (%v)", broken, err))
	}
}

// endChanged ends a request whose tokens are others when they are computed again: none of those behind what was delivered
// is, whatever its log says.
func (sh *ownedShard) endChanged(ctx context.Context, r *served, broken error) {
	why := edge.Errorf(edge.Internal, "the request's token log is not whole: %v", broken)
	end := &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{FinishReason: "error", Error: edge.Proto(why)}}}
	sh.advance(ctx, r, end)
	sh.forget(r)
	delete(sh.requests, r.request)
	sh.s.settled.add(r.request, time.Now())
	request, opened := r.request, r.chain.Opened()
	sh.s.tasks.Go(func() { sh.s.endBroken(ctx, request, opened, why) })
}

// watchSequences gives attention all that runs again when the stream of sequences has lost messages: a replica that goes
// away would leave its requests to nobody.
func (s *Shards) watchSequences(ctx context.Context) {
	stream := s.d.Streams.Sequences().Name
	var known bus.Place
	tick := time.NewTicker(lossEvery)
	defer tick.Stop()
	for {
		back := s.d.Conn.Reconnection()
		if state, err := s.d.Conn.State(ctx, stream); err == nil {
			if err := known.Missing(state, stream); err != nil {
				s.d.Logger.Error("the server has lost sequences that it had stored; they are given to attention again", "stream", stream, "error", err)
				s.held.each(func(sh *ownedShard) { s.tasks.Go(func() { sh.revive(ctx, "SEQUENCES", false) }) })
			}
			known = bus.Place{Incarnation: state.Incarnation, Sequence: state.Last}
		}
		select {
		case <-ctx.Done():
			return
		case <-back:
		case <-tick.C:
		}
	}
}
