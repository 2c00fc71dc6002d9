package attention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// sequenceAckWait is how long the sequences of an owner that is gone wait for the next
// one, unless a sibling gives them back before.
const sequenceAckWait = 1500 * time.Millisecond

// renewals are how often work in hand is renewed within that time.
const renewals = 4

// receive lets a sequence that was pulled wait for its turn; false: it is none. What takes
// questions to others is found out beside what was pulled with it.
func (s *Service) receive(ctx context.Context, d *bus.Delivery) (readable bool) {
	a := &arrival{
		hold: s.engine.keeper.keep(d), bytes: len(d.Data), delivered: d.Delivered, place: d.Sequence, stored: d.Timestamp, away: s.d.Conn.Gap(),
	}
	err := s.d.Conn.Try(d.Subject, func() error { return s.read(d, a) })
	if bus.IsPanic(err) && a.msg != nil {
		err = &refusedError{a.msg, codeInternal, err}
	}
	switch {
	case err != nil:
		s.tasks.Go(func() { s.turnAway(ctx, a, err) })
	case isEarlier(a.msg):
		s.tasks.Go(func() { s.inherit(ctx, a) })
	case d.Delivered == 1 && s.fits(a.msg):
		s.waiting.join(a)
	default:
		s.tasks.Go(func() { s.lookInto(ctx, a) })
	}
	return !errors.Is(err, errUnreadable)
}

// lookInto lets a sequence wait that may have begun, or that may be too large here.
func (s *Service) lookInto(ctx context.Context, a *arrival) {
	err := s.leave(a)
	if err == nil {
		err = s.checkCapacity(ctx, a.msg, a.delivered)
	}
	if err == nil && a.delivered > 1 {
		a.begun, err = s.log.Begun(ctx, a.msg.RequestId)
	}
	if err != nil {
		s.turnAway(ctx, a, err)
		return
	}
	s.waiting.join(a)
}

// turnAway settles a sequence that does not wait here.
func (s *Service) turnAway(ctx context.Context, a *arrival, why error) {
	s.waiting.pass()
	s.settle(ctx, a.hold, why)
}

// admit claims a sequence's log and hands it to the engine.
func (s *Service) admit(ctx context.Context, a *arrival) {
	defer s.engine.entered()
	var seq *sequence
	err := s.d.Conn.Try(s.d.Subjects.Sequence(), func() (err error) {
		seq, err = s.own(ctx, a)
		return err
	})
	if bus.IsPanic(err) {
		err = &refusedError{a.msg, codeInternal, err}
	}
	if err == nil {
		select {
		case s.engine.admitted <- seq:
			return
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	s.slots.release()
	s.waiting.refund(a, 0)
	s.settle(ctx, a.hold, err)
}

// settle tells the queue why a sequence was not admitted.
func (s *Service) settle(ctx context.Context, h *hold, err error) {
	if errors.Is(err, errOurs) || errors.Is(err, errLapsed) {
		h.drop() // it goes on under its first delivery, which keeps it for us, or with its next owner
		return
	}
	if err := h.End(s.unadmitted(ctx, err)); err != nil {
		s.d.Logger.Debug("settling a sequence", "error", err)
	}
}

// errOurs says that the work came again while it is being done here: a claim
// was not renewed in time, as when the server was away.
var errOurs = errors.New("this replica has the sequence")

// errLapsed says that work which waited here was not renewed in time, so that
// somebody else has it: claiming it would take it from him.
var errLapsed = errors.New("its delivery has lapsed")

// refusedError is why a sequence can never be worked on.
type refusedError struct {
	seq  *pb.Sequence
	code string
	error
}

// Unwrap is why.
func (r *refusedError) Unwrap() error { return r.error }

// reason is why the sequence is given up.
func (r *refusedError) reason() bus.Reason {
	switch {
	case bus.IsPanic(r.error):
		return bus.Panicked
	case errors.Is(r.error, tokenlog.ErrCrashed):
		return bus.Crashed
	case errors.Is(r.error, tokenlog.ErrFruitless):
		return bus.Deliveries
	}
	return bus.Refused
}

// admitRetry is the pause before a sequence whose admission failed comes again.
const admitRetry = 500 * time.Millisecond

// unadmitted decides what an error of admission means for the work: an accepted
// request ends in an answer or in an error that its producer sees, so it comes
// again as often as it takes, or its log is ended.
func (s *Service) unadmitted(ctx context.Context, err error) error {
	var foreign *foreignError
	if errors.As(err, &foreign) {
		err = s.settleForeign(ctx, foreign)
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		s.d.Logger.Warn("sequence refused", "error", err)
		err = s.log.End(ctx, refused.seq.RequestId, refused.seq.Accept, errorEnd(refused.code, refused.Error()))
		if err == nil && refused.code == codeInternal {
			return bus.GiveUp(refused.reason(), refused)
		}
	}
	switch {
	case err == nil, errors.Is(err, tokenlog.ErrFinished), errors.Is(err, tokenlog.ErrAccepted):
		return nil // or ended already: cancelled while it waited, or its acknowledgement was lost; or it has another sequence
	case errors.Is(err, tokenlog.ErrForeign):
		return bus.GiveUp(bus.Refused, err) // its id is another request's by now
	case errors.Is(err, context.Canceled), errors.Is(err, errUnreadable), errors.Is(err, errElsewhere), errors.Is(err, errTheirs):
		return err
	}
	s.d.Logger.Warn("sequence not admitted; it will come again", "error", err)
	return bus.RetryAfter(admitRetry, err)
}

// errUnreadable says that a message is no sequence.
var errUnreadable = errors.New("unreadable sequence")

// read checks what a message says before anything follows from it.
func (s *Service) read(d *bus.Delivery, a *arrival) error {
	msg := &pb.Sequence{}
	if err := proto.Unmarshal(d.Data, msg); err != nil {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	a.msg = msg
	if err := schemas.CheckRequestID(msg.RequestId); err != nil {
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if isEarlier(msg) {
		return nil // what it does not say is looked up
	}
	return s.check(msg, d.Delivered)
}

// check says why a sequence cannot be worked on here.
func (s *Service) check(msg *pb.Sequence, delivered int) error {
	if err := checkAcceptance(msg); err != nil {
		s.metrics.Refused.Inc()
		return bus.Poison(fmt.Errorf("%w: %w", errUnreadable, err))
	}
	if err := s.d.Identity.Check(msg.GetIdentity().GetVersion(), msg.GetIdentity().GetModel()); err != nil {
		return &foreignError{msg, delivered, err}
	}
	if err := s.checkLength(msg, delivered); err != nil {
		return err
	}
	if err := s.limits().CheckSequence(msg); err != nil {
		s.metrics.Refused.Inc()
		return &refusedError{msg, codeInternal, fmt.Errorf("sequence %s: %w", msg.RequestId, err)}
	}
	return nil
}

// limits are what a sequence must keep.
func (s *Service) limits() edge.Model {
	spec := &s.d.Model.Spec
	return edge.Model{Vocab: spec.Vocab, MaxLen: spec.LongestSequence(s.config.MaxModelLen), Task: spec.Task(), Types: spec.SourceTypes()}
}

// own makes a request a sequence of this replica.
func (s *Service) own(ctx context.Context, a *arrival) (*sequence, error) {
	switch {
	case a.hold.lapsed.Load():
		return nil, errLapsed
	case s.engine.owns(ctx, a.msg.RequestId):
		return nil, errOurs
	case a.away() && s.begun(ctx, a.msg.RequestId):
		return nil, errLapsed // a sibling gave it back (pkg/control/siblings), and somebody goes on with it
	}
	seq := newSequence(a.msg)
	seq.delivery, seq.isLong = a.hold, s.backbone.Long
	seq.release = func() {
		s.slots.release()
		s.waiting.refund(a, float64(len(seq.ids)))
	}
	return seq, s.claim(ctx, seq)
}

// begun says whether somebody has begun a request. What cannot be read, claiming it tells.
func (s *Service) begun(ctx context.Context, request string) bool {
	begun, err := s.log.Begun(ctx, request)
	return err == nil && begun
}

// checkAcceptance refuses what nobody made who accepted it: it says nothing about any
// request and touches no log.
func checkAcceptance(m *pb.Sequence) error {
	if a := m.GetAccept(); int(a.GetPromptTokens()) != len(m.PromptIds) || a.GetMaxTokens() != m.MaxTokens {
		return errors.New("it does not carry its own acceptance")
	}
	if f := schemas.FlowOf(m.GetAccept()); !f.IsCanary() {
		return f.Check()
	}
	return nil
}

// claim makes this replica the owner, and takes in what the log has.
func (s *Service) claim(ctx context.Context, seq *sequence) error {
	request := seq.seq.RequestId
	writer, history, err := s.log.Claim(ctx, request, seq.seq.Accept, tokenlog.WriterSettings{
		Lost: func(w *tokenlog.Writer, err error) {
			s.lost(seq, err)
			s.tell(lostLog{request: request, writer: w})
		},
		Cut: func(w *tokenlog.Writer, why error) *pb.Terminal {
			go s.tell(lostLog{request: request, writer: w, full: why})
			return noRoom(why)
		},
		Finished: func() { s.finished(seq) },
		Room:     s.engine.haveRoom,
	})
	if gone := unresumable(err); gone != nil {
		return &refusedError{seq.seq, codeInternal, gone}
	}
	if err != nil {
		return fmt.Errorf("claiming the log of %s: %w", request, err)
	}
	seq.writer, seq.epoch = writer, writer.Epoch()
	if seq.doubtful = writer.Doubtful(); seq.doubtful {
		s.d.Logger.Warn("owner after owner made nothing of a sequence; it is stepped alone", "request", request, "owners", seq.epoch)
	}
	seq.restore(history, time.Now())
	seq.endBefore(s.longest())
	return nil
}

// tell lets the engine know what became of a log.
func (s *Service) tell(l lostLog) {
	select {
	case s.engine.lost <- l:
	case <-s.ctx.Done():
	}
}

// unresumable is what the producer is told of a log that nobody can go on with;
// nil for all other errors.
func unresumable(err error) error {
	switch {
	case errors.Is(err, tokenlog.ErrUnknown):
		return fmt.Errorf("the request's token log is gone: it waited for longer than logs are kept (--log-age), or their stream was deleted (%w)", err)
	case errors.Is(err, tokenlog.ErrNotWhole), errors.Is(err, tokenlog.ErrFruitless), errors.Is(err, tokenlog.ErrCrashed):
		return err
	}
	return nil
}

// longest is how long a request may take: it must not outlive its log, which
// begins to go with its first record.
func (s *Service) longest() time.Duration { return s.d.Streams.Tokens().MaxAge / 4 * 3 }

// finished settles a sequence whose terminal record is in the log.
func (s *Service) finished(seq *sequence) {
	if seq.fault != nil {
		s.tasks.Go(func() { s.giveUp(seq) })
		return
	}
	if err := seq.delivery.Ack(); err != nil {
		s.d.Logger.Debug("acknowledging a sequence", "request", seq.seq.RequestId, "error", err)
	}
}

// giveUp leaves a sequence to the dead letters whose steps panic.
func (s *Service) giveUp(seq *sequence) {
	if err := seq.delivery.End(bus.GiveUp(bus.Panicked, seq.fault)); err != nil {
		s.d.Logger.Debug("giving up a sequence", "request", seq.seq.RequestId, "error", err)
	}
}

// lost settles a sequence whose log is not ours to write any more. Another
// owner has the work, or its end is stored.
func (s *Service) lost(seq *sequence, err error) {
	if errors.Is(err, tokenlog.ErrFinished) {
		s.finished(seq)
		return
	}
	seq.delivery.drop()
}

// slots counts how many more sequences a replica takes.
type slots struct {
	tokens chan struct{}
}

func newSlots(n int) *slots {
	s := &slots{tokens: make(chan struct{}, n)}
	for range n {
		s.tokens <- struct{}{}
	}
	return s
}

// wait returns when a slot is free; false when ctx ended before.
func (s *slots) wait(ctx context.Context) bool {
	select {
	case t := <-s.tokens:
		s.tokens <- t
		return true
	case <-ctx.Done():
		return false
	}
}

func (s *slots) unused() int { return len(s.tokens) }
func (s *slots) take()       { <-s.tokens }
func (s *slots) release()    { s.tokens <- struct{}{} }
