package delivery

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
)

// Replays stream requests again to further readers, from their logs.
type Replays struct {
	*common
	sender  *Sender
	kinds   *Kinds
	endings *Endings

	open     *openReplays
	rate     *replayRate
	lookups  *policy.Portions // of replays that wait to be begun, by readers
	looking  chan struct{}    // one for each that is looked up
	prompts  sight
	absent   absences
	deserted *timers // requests whose caller seems to be gone

	heldWithin time.Duration // heldWithin but in tests
}

func newReplays(c *common, now func() time.Time, sender *Sender, kinds *Kinds, endings *Endings) *Replays {
	return &Replays{
		common: c, sender: sender, kinds: kinds, endings: endings,
		open: newOpenReplays(c.replica, now), rate: newReplayRate(), lookups: policy.NewPortions(lookupsWaiting), looking: make(chan struct{}, lookupsAtOnce),
		deserted: newTimers(maxEnding, endingAtOnce), heldWithin: heldWithin,
	}
}

// maxReplayBody bounds what is decoded of a replay request: an id and an index.
const maxReplayBody = 4096

// OnReplay begins a replay that a reader asks for.
func (s *Replays) OnReplay(m *nats.Msg) {
	to := Destination{Subject: m.Reply, Origin: Inbox}
	if !s.sender.Answerable(to) {
		return
	}
	data := m.Data
	if len(data) > maxReplayBody {
		data = nil // which is refused
	}
	req, encoding, err := edge.DecodeReplay(m.Header, data)
	to.Encoding = encoding
	if err == nil {
		err = admission.BadRequest(schemas.CheckRequestID(req.RequestId))
	}
	if err == nil && req.FromIndex < 0 {
		err = edge.Errorf(edge.BadRequest, "from_index is %d; it must be 0 or more", req.FromIndex)
	}
	if err != nil {
		s.refuseReplay(to, admission.UsableID(req.GetRequestId()), err)
		return
	}
	to.From = Beginning(req.FromIndex)
	s.lookUp(&replay{request: req.RequestId, reader: s.d.Subjects.TenantOf(m.Subject), to: to, turn: s.open.next()})
}

// refuseReplay tells a reader that it gets none. The request's own refusal may go to
// the same inbox, so that the two have to be told apart.
func (s *Replays) refuseReplay(to Destination, request string, why error) {
	to.replay = true
	s.sender.Tell(to, edge.Refusal(request, why))
}

// Again streams a tenant's request's chunks from its log to one more reader, and goes
// on live; asked says that the reader is a caller of ask, whose waiting keeps
// a request alive.
func (s *Replays) Again(tenant, request string, to Destination, asked bool) {
	s.begin(&replay{request: request, tenant: tenant, to: to, asked: asked, turn: s.open.next()})
}

// lookUp begins a stream when it is known whose request it is, which the log says. Those
// that wait for that are bounded, and shared by the readers' inboxes.
func (s *Replays) lookUp(st *replay) {
	reader := schemas.InboxOwner(st.to.Subject)
	if !s.lookups.Take(reader, 1) {
		s.refuseReplay(st.to, st.request, admission.RetryLater(edge.Errorf(edge.Overloaded, "%d replays wait to be begun already, of %d that may, and no more than half of them of one reader", s.lookups.Had(), lookupsWaiting)))
		return
	}
	s.tasks.Go(func() {
		defer s.lookups.Give(reader, 1)
		defer s.d.Conn.Recover(s.d.Subjects.Replay())
		opened, err := s.openingOf(st.request)
		switch {
		case err == nil:
			whose := schemas.FlowOf(opened).Tenant
			if !st.mayRead(whose) { // it takes no place of theirs
				s.metrics.RefusedReplies.Inc()
				s.endReplay(st.to, st.request, tokenlog.ErrUnknown)
				return
			}
			st.tenant = whose
		case s.ctx.Err() != nil:
			s.handOn(st)
			return
		} // else it is not known whose it is, or it is being accepted
		s.begin(st)
	})
}

// openingOf is what a log was opened with, looked for beside few others.
func (s *Replays) openingOf(request string) (*pb.Accept, error) {
	select {
	case s.looking <- struct{}{}:
	case <-s.ctx.Done():
		return nil, s.ctx.Err() //nolint:wrapcheck // it says that this replica stops
	}
	defer func() { <-s.looking }()
	return s.log.First(s.ctx, request)
}

// begin begins a stream, if its reader has none that is later, and its tenant no more than
// its share of them.
func (s *Replays) begin(st *replay) {
	wait, err := s.rate.begin(st.tenant, time.Now())
	if err == nil {
		var ctx context.Context
		if ctx, err = s.open.add(s.ctx, st); err == nil {
			s.serve(ctx, st, wait)
			return
		}
	}
	if !errors.Is(err, errServed) {
		s.refuseReplay(st.to, st.request, admission.RetryLater(err))
	}
}

// serve sends a stream that was opened until it ends. One that this replica ends because
// it stops is for another one.
func (s *Replays) serve(ctx context.Context, st *replay, wait time.Duration) {
	if st.asked { // a replica that looked for a caller while none had the stream hears of this one
		s.signal(s.d.Subjects.Interest(interestHeld, st.request))
	}
	s.takeOver(st)
	s.tasks.Go(func() {
		defer s.d.Conn.Recover(s.d.Subjects.Replay())
		defer s.open.close(st)
		err := await(ctx, wait)
		if err == nil {
			err = s.stream(ctx, st)
		}
		switch {
		case err == nil:
		case s.ctx.Err() != nil:
			if s.open.close(st) {
				s.handOn(st)
			}
		case ctx.Err() == nil:
			s.endReplay(st.to, st.request, err)
		}
	})
}

// endReplay says why a reader gets no more.
func (s *Replays) endReplay(to Destination, request string, why error) {
	if errors.Is(why, tokenlog.ErrUnknown) {
		why = unknown(s.common, request)
	}
	if errors.Is(why, tokenlog.ErrNotWhole) {
		why = edge.Errorf(edge.Internal, "request_id %q cannot be read any more: records of its log are gone from stream %s", request, s.d.Streams.Tokens().Name)
	}
	if errors.Is(why, tokenlog.ErrNoisy) {
		why = edge.Errorf(edge.BadRequest, "request_id %q is not streamed again: its log holds thousands of messages that are no records, which a client that knows its id has stored there", request)
	}
	var typed *edge.Error
	var theirs *tokenlog.KindError
	switch {
	case errors.As(why, &theirs):
		s.refuseForeign(to, theirs)
	case errors.As(why, &typed):
		s.refuseReplay(to, request, typed)
	default:
		s.d.Logger.Warn("a replay ended early", "request", request, "error", why)
	}
}

// stream delivers a request's chunks, those to come included.
func (s *Replays) stream(ctx context.Context, st *replay) error {
	if st.until == 0 {
		last, err := s.awaitLog(ctx, st.request)
		if err != nil {
			return err
		}
		st.until = last
	}
	var a *answer
	var notHis error
	live := true
	err := s.log.FollowRequest(ctx, st.request, func(e tokenlog.Entry) bool {
		if k, ok := e.Record.Kind.(*pb.Record_Accept); ok {
			if notHis = s.readable(st, schemas.FlowOf(k.Accept).Tenant); notHis != nil {
				return false
			}
			a = s.answer(st.request, k.Accept)
			// The owner of its shard sends the producer what comes from now on.
			live = k.Accept.ReplyTo != st.to.Subject
		} else if a != nil {
			if !s.pass(ctx, st, a.push(e.Record)) {
				return false
			}
		}
		return (live || e.Packed || e.Seq < st.until) && (a == nil || !a.finished)
	})
	return cmp.Or(notHis, err)
}

// readable says why a stream's reader may not have a tenant's answer. To a reader in
// another tenant's account the request is unknown.
func (s *Replays) readable(st *replay, tenant string) error {
	err := schemas.CheckInboxOf(tenant, st.to.Subject)
	if !st.mayRead(tenant) {
		err = errors.New("the reader is of another tenant")
	}
	if err != nil {
		s.metrics.RefusedReplies.Inc()
		s.d.Logger.Debug("not replaying a request", "error", err)
		return tokenlog.ErrUnknown
	}
	return s.open.belongs(st, tenant)
}

// pass delivers a chunk, if there is one that the reader wants. A reader that misses it
// asks again; more is false when the stream has ended with it.
func (s *Replays) pass(ctx context.Context, st *replay, c *pb.Chunk) (more bool) {
	if c == nil || !wants(c, st.to.From) {
		return true
	}
	if await(ctx, s.rate.chunk(st.tenant, time.Now())) != nil {
		return true // the follower of the log sees that ctx has ended
	}
	err := s.sender.Deliver(st.to, c)
	if err != nil {
		s.d.Logger.Debug("replaying", "request", c.RequestId, "error", err)
		return !errors.Is(err, errCut)
	}
	st.to.From = c.Index + 1
	return true
}

// refuseForeign tells a reader that no replica can read a log to it; while some of its kind are
// here, one of them does.
func (s *Replays) refuseForeign(to Destination, e *tokenlog.KindError) {
	if s.kinds.Here(e.Identity) {
		return
	}
	s.refuseReplay(to, e.Request, edge.Errorf(edge.ModelNotReady, "%v, and none of them is here; send it again under another id", e))
}
