package tokenizer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/process/pause"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// maxReplayBody bounds what is decoded of a replay request: an id and an index.
const maxReplayBody = 4096

func (s *Service) onReplay(m *nats.Msg) {
	to := destination{subject: m.Reply, origin: inbox}
	if !s.answerable(to) {
		return
	}
	data := m.Data
	if len(data) > maxReplayBody {
		data = nil // which is refused
	}
	req, encoding, err := edge.DecodeReplay(m.Header, data)
	to.encoding = encoding
	if err == nil {
		err = badRequest(schemas.CheckRequestID(req.RequestId))
	}
	if err == nil && req.FromIndex < 0 {
		err = edge.Errorf(edge.BadRequest, "from_index is %d; it must be 0 or more", req.FromIndex)
	}
	if err != nil {
		s.refuseReplay(to, usableID(req.GetRequestId()), err)
		return
	}
	to.from = req.FromIndex
	s.replay(req.RequestId, to, false)
}

// refuseReplay tells a reader that he gets none. The request's own refusal may go to
// the same inbox, so that the two have to be told apart.
func (s *Service) refuseReplay(to destination, request string, why error) {
	to.replay = true
	s.tell(to, edge.Refusal(request, why))
}

// badRequest is an error of what a producer sent.
func badRequest(err error) error {
	if err == nil {
		return nil
	}
	return edge.Errorf(edge.BadRequest, "%v", err)
}

// replay streams a request's chunks from its log to one more reader, and goes
// on live; asked says that the reader is a caller of ask, whose waiting keeps
// a request alive.
func (s *Service) replay(request string, to destination, asked bool) {
	ctx, st, err := s.streams.open(s.ctx, request, to, asked)
	if err != nil {
		s.refuseReplay(to, request, retryLater(err))
		return
	}
	to.probed, to.stream = true, st.id
	s.takeOver(st)
	s.tasks.Go(func() {
		defer s.d.Conn.Recover(s.d.Subjects.Replay())
		defer s.streams.close(st)
		err := s.stream(ctx, request, to)
		if errors.Is(err, tokenlog.ErrUnknown) {
			err = edge.Errorf(edge.BadRequest, "request_id %q is unknown; it is kept for an hour", request)
		}
		var typed *edge.Error
		if errors.As(err, &typed) {
			s.refuseReplay(to, request, typed)
		} else if err != nil && ctx.Err() == nil {
			s.d.Logger.Warn("a replay ended early", "request", request, "error", err)
		}
	})
}

// stream delivers a request's chunks, those to come included.
func (s *Service) stream(ctx context.Context, request string, to destination) error {
	last, err := s.awaitLog(ctx, request)
	if err != nil {
		return err
	}
	var a *answer
	live := true
	return s.log.FollowRequest(ctx, request, func(e tokenlog.Entry) bool {
		if k, ok := e.Record.Kind.(*pb.Record_Accept); ok {
			a = newAnswer(request, k.Accept, s.newDetokenizer())
			// The owner of its shard sends the producer what comes from now on.
			live = k.Accept.ReplyTo != to.subject
		} else if a != nil {
			if !s.pass(ctx, to, a.push(e.Record)) {
				return false
			}
		}
		return (live || e.Packed || e.Seq < last) && (a == nil || !a.finished)
	})
}

// pass delivers a chunk, if there is one. A reader who misses it asks again;
// more is false when the stream has ended with it.
func (s *Service) pass(ctx context.Context, to destination, c *pb.Chunk) (more bool) {
	if c == nil {
		return true
	}
	err := s.deliver(ctx, to, c)
	if err != nil {
		s.d.Logger.Debug("replaying", "request", c.RequestId, "error", err)
	}
	return !errors.Is(err, errCut)
}

const (
	// takenWithin is how long a replay waits for a prompt that no tokenizer has
	// taken in yet, and the pauses between its looks.
	takenWithin          = 15 * time.Second
	firstLook, laterLook = 20 * time.Millisecond, 500 * time.Millisecond
)

// awaitLog returns the sequence of a request's last record. One that is unknown may be
// accepted and not yet taken in, as long as prompts wait.
func (s *Service) awaitLog(ctx context.Context, request string) (last uint64, err error) {
	waiting := true
	for pauses, begun := pause.Between(firstLook, laterLook), time.Now(); ; {
		last, err = s.log.Last(ctx, request)
		switch {
		case !errors.Is(err, tokenlog.ErrUnknown):
			return last, err
		case !waiting:
			return last, err // no prompt waited before the look at the log
		case time.Since(begun) > takenWithin:
			return last, &edge.Error{
				Code: edge.Overloaded, RetryAfter: overloadPause,
				Message: fmt.Sprintf("request_id %q is not known yet, and prompts wait to be taken in; ask again", request),
			}
		}
		if waiting = s.promptsWait(ctx); !waiting {
			continue
		}
		if err := pauses.Wait(ctx); err != nil {
			return last, fmt.Errorf("waiting for request %s: %w", request, err)
		}
	}
}

// prompted is when prompts were last seen to wait.
type prompted struct {
	sync.Mutex
	until time.Time
}

// waitsFor is how long prompts are taken to wait still, when some did at a look: all
// replays together look no more often.
const waitsFor = 250 * time.Millisecond

// promptsWait says whether an accepted prompt may not have been taken in.
func (s *Service) promptsWait(ctx context.Context) bool {
	s.prompted.Lock()
	defer s.prompted.Unlock()
	if time.Now().Before(s.prompted.until) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	stream, err := s.d.Conn.JetStream().Stream(ctx, s.d.Streams.Prompts().Name)
	waits := err != nil || stream.CachedInfo().State.Msgs > 0
	if waits {
		s.prompted.until = time.Now().Add(waitsFor)
	}
	return waits
}

// retryLater gives an overload the pause after which to try again.
func retryLater(err error) error {
	var e *edge.Error
	if errors.As(err, &e) && e.Code == edge.Overloaded && e.RetryAfter == 0 {
		e.RetryAfter = overloadPause
	}
	return err
}
