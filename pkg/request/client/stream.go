package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// inboxSize is how many chunks may wait for a slow reader; a replay brings
	// again what is beyond it.
	inboxSize = 4096
	// askedInbox is the same of an ask without scores: its chunks come one by one, as they are
	// made, and a process may have thousands.
	askedInbox = 256
	// overtaking lets chunks that overtook each other arrive before a gap counts as one.
	overtaking = 20 * time.Millisecond
	// maxSilence bounds the pause between replays that bring nothing.
	maxSilence = 30 * time.Second

	statusNoResponders = "503"
)

// Stream is the answer to one request.
type Stream struct {
	client  *Client
	ctx     context.Context
	request string
	inbox   *nats.Subscription
	msgs    chan *nats.Msg
	status  chan nats.Status
	order   *order
	reading <-chan struct{} // closed when the stream is no longer read; nil: it is read to its end

	prompt   *nats.Msg     // nil when resumed
	refusals int           // of replays, while nothing has come
	pause    time.Duration // until the next replay
	deserted time.Time     // since when replays find nobody; zero: they do
	lost     time.Time     // since when the connection is broken; zero: it is not
}

// open subscribes to a new inbox, with room for so many chunks, before anything can be sent to it.
func (c *Client) open(ctx context.Context, request string, from int32, scored bool, room int) (*Stream, error) {
	if err := schemas.CheckRequestID(request); err != nil {
		return nil, &Error{Code: CodeBadRequest, Message: err.Error()}
	}
	s := &Stream{
		client: c, ctx: ctx, request: request,
		msgs: make(chan *nats.Msg, room), order: newOrder(from, scored), pause: c.settings.Silence,
	}
	var err error
	if s.inbox, err = c.nc.ChanSubscribe(c.nc.NewInbox(), s.msgs); err != nil {
		return nil, &Error{Code: CodeInterrupted, Message: "subscribing to the answer's inbox", Cause: err}
	}
	s.status = c.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED)
	return s, nil
}

// RequestID is the request's id: the one given, or the one made for it.
func (s *Stream) RequestID() string { return s.request }

// Close stops streaming; an accepted request goes on without it.
func (s *Stream) Close() {
	s.client.nc.RemoveStatusListener(s.status)
	_ = s.inbox.Unsubscribe() // only a closed connection has none to end
}

// Until is Chunks up to the end of a context, which is not the request's: that goes on.
func (s *Stream) Until(reading context.Context) iter.Seq2[*pb.Chunk, error] {
	s.reading = reading.Done()
	return s.Chunks()
}

// Chunks yields the chunks in order, each once, and ends after the terminal
// one, which has a finish_reason; Failure tells whether the answer is whole.
// Without a terminal chunk it ends with an *Error. Leaving the loop early does
// not end the request, the end of its context does. Use it once.
func (s *Stream) Chunks() iter.Seq2[*pb.Chunk, error] {
	return func(yield func(*pb.Chunk, error) bool) {
		defer s.Close()
		timer := time.NewTimer(s.pause)
		defer timer.Stop()
		for !s.order.ended {
			chunks, err := s.await(timer)
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// await waits for the next thing to happen and returns the chunks that are due.
func (s *Stream) await(timer *time.Timer) ([]*pb.Chunk, error) {
	select {
	case <-s.ctx.Done():
		return nil, s.client.cancelled(s.ctx, s.request)
	case <-s.reading:
		if s.ctx.Err() != nil { // both have ended
			return nil, s.client.cancelled(s.ctx, s.request)
		}
		return nil, s.interrupted("its reader has left", nil)
	case msg := <-s.msgs:
		return s.receive(msg, timer)
	case status := <-s.status:
		if status == nats.CLOSED {
			return nil, s.interrupted("the connection was closed", nats.ErrConnectionClosed)
		}
		timer.Reset(0) // when it is back: chunks sent meanwhile are lost
		return nil, nil
	case <-timer.C:
		if len(s.msgs) > 0 { // what is missing may be among them
			timer.Reset(s.client.gapDelay)
			return nil, nil
		}
		if s.client.away(&s.lost) {
			return nil, s.outage(timer)
		}
		err := s.replay()
		s.client.leaveHung(s.ctx)
		timer.Reset(s.pause)
		s.pause = min(2*s.pause, maxSilence)
		return nil, err
	}
}

// receive takes a message in, and sets the timer for what it tells.
func (s *Stream) receive(msg *nats.Msg, timer *time.Timer) ([]*pb.Chunk, error) {
	if msg.Header.Get("Status") == statusNoResponders && len(msg.Data) == 0 {
		return nil, s.nobody(timer)
	}
	s.deserted = time.Time{}
	s.client.served()
	c := &pb.Chunk{}
	if err := proto.Unmarshal(msg.Data, c); err != nil {
		return nil, &Error{Code: CodeInternal, Message: "reading a chunk of the answer", Cause: err}
	}
	if c.RequestId != s.request && !s.refusedUnread(c) {
		return nil, nil
	}
	if msg.Header.Get(schemas.HeaderRefused) != "" {
		if handled, err := s.replayRefused(c); handled {
			return nil, err
		}
	}
	if said := msg.Header.Get(schemas.HeaderLimits); said != "" && s.client.settings.Allowed != nil {
		s.client.settings.Allowed(schemas.ParseAllowance(said))
	}
	hadGap := s.order.gap()
	chunks, err := s.order.add(c)
	if err != nil {
		return nil, &Error{Code: CodeInternal, Message: "putting the answer in order", Cause: err}
	}
	if !s.order.untouched() {
		s.prompt = nil // it was taken in
	}
	switch {
	case s.order.gap() && !hadGap:
		timer.Reset(s.client.gapDelay)
	case len(chunks) > 0:
		s.pause = s.client.settings.Silence
		timer.Reset(s.pause)
	}
	return chunks, nil
}

// refusedUnread reports whether an ask was refused without being read, so that the refusal has no
// request's id: too large, or too many at once. The inbox is of this ask alone.
func (s *Stream) refusedUnread(c *pb.Chunk) bool {
	return s.prompt != nil && s.prompt.Reply != "" && c.RequestId == "" && c.GetError() != nil && s.order.untouched()
}

// sendAgain is after how many refusals of replays a prompt is sent again that waits
// to be taken in, as the services say: its own refusal may have been lost. To send it
// sooner would add to what they cannot keep up with.
const sendAgain = 4

// replayRefused handles the refusal of a replay, which is not the request's own: the
// timer asks again. What nothing is known of, and does not wait either, was refused,
// and that got lost: it is refused again when the prompt is sent again. If some of its
// answer has come, the server has lost it.
func (s *Stream) replayRefused(c *pb.Chunk) (handled bool, err error) {
	code, untouched := c.GetError().GetCode(), s.order.untouched()
	switch {
	case untouched && s.prompt == nil:
		return false, nil // who resumes is told
	case code == CodeOverloaded && untouched:
		if s.refusals++; s.refusals%sendAgain == 0 {
			return true, s.again()
		}
		return true, nil
	case code == CodeBadRequest && untouched:
		return true, s.again()
	case code == CodeBadRequest:
		return true, &Error{Code: CodeInternal, Message: fmt.Sprintf(
			"request %s is lost: it was answered up to token %d, and now nothing is known of it: %s", s.request, s.order.tokens.next, c.GetError().GetMessage())}
	}
	return code == CodeOverloaded, nil
}

// again publishes the prompt once more, which starts nothing new. Nobody waits
// for its acknowledgement: the timer asks for a replay when nothing comes.
func (s *Stream) again() error {
	err := s.client.nc.PublishMsg(&nats.Msg{Subject: s.prompt.Subject, Reply: s.prompt.Reply, Header: s.prompt.Header, Data: s.prompt.Data})
	if errors.Is(err, nats.ErrConnectionClosed) {
		return s.interrupted("the connection was closed", err)
	}
	return nil
}

// outage waits for the connection, for as long as it may be away.
func (s *Stream) outage(timer *time.Timer) error {
	left := s.client.settings.Away - time.Since(s.lost)
	if left > 0 {
		timer.Reset(left)
		return nil
	}
	return s.interrupted(fmt.Sprintf("NATS has been away for %v", time.Since(s.lost).Round(100*time.Millisecond)), nil)
}

// nobody notes that no service answered a replay, and asks again soon.
func (s *Stream) nobody(timer *time.Timer) error {
	if s.deserted.IsZero() {
		s.deserted = time.Now()
	}
	if waited := time.Since(s.deserted); waited >= s.client.settings.Patience {
		return s.interrupted(fmt.Sprintf("no replica has served the model for %s", waited.Round(time.Millisecond)), nil)
	}
	s.client.unserved(time.Now())
	s.pause = s.client.settings.Silence
	timer.Reset(s.pause / 4)
	return nil
}

func (s *Stream) interrupted(what string, cause error) *Error {
	return &Error{Code: CodeInterrupted, Cause: cause, Message: fmt.Sprintf(
		"%s before token %d of request %s came; the request may go on: resume it from there, or send it again with the same request id (Idempotency-Key over HTTP), which starts nothing new",
		what, s.order.tokens.next, s.request)}
}

// replay asks for everything from the first missing chunk on. The answer goes
// to the same inbox, so that the service can tell that it is the same reader.
func (s *Stream) replay() error {
	body, err := proto.Marshal(&pb.Replay{RequestId: s.request, FromIndex: s.order.from()})
	if err != nil {
		return &Error{Code: CodeInternal, Message: "encoding a replay request", Cause: err}
	}
	subject := s.client.subjects.Replay()
	if s.client.settings.ByTenant {
		subject = s.client.subjects.ReplayOf(s.client.settings.Tenant)
	}
	msg := protobufMsg(subject, body)
	msg.Reply = s.inbox.Subject
	// A connection that breaks now is noticed by its status, and the timer asks again.
	if err := s.client.nc.PublishMsg(msg); errors.Is(err, nats.ErrConnectionClosed) {
		return s.interrupted("the connection was closed", err)
	}
	return nil
}
