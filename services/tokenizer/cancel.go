package tokenizer

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	// cancelGrace is how long an attention replica has to end a request itself.
	cancelGrace = 200 * time.Millisecond
	// maxEnding bounds the requests that wait for their end, and endingAtOnce
	// those that are being ended: each takes requests to the server.
	maxEnding, endingAtOnce = 10_000, 8
	// A cancellation that comes before its request is remembered: this many,
	// for this long.
	maxCancelled, cancelledFor = 20_000, 5 * time.Minute
)

// onCancelled remembers what was cancelled; every replica hears it.
func (s *Service) onCancelled(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); s.isSignal(m) && schemas.CheckRequestID(request) == nil {
		s.cancelled.add(request, time.Now())
	}
}

// onCancelledOne ends requests that no attention replica has: those that wait.
func (s *Service) onCancelledOne(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "cancelled")
	}
}

// onStop ends a request that has its stop string, if attention lost the message.
func (s *Service) onStop(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "stop")
	}
}

// endSoon ends a request unless attention does it before.
func (s *Service) endSoon(request, reason string) {
	if err := schemas.CheckRequestID(request); err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not ending a request", "error", err)
		return
	}
	s.ending.note(request, cancelGrace, func(ctx context.Context) {
		s.finish(ctx, request, &pb.Terminal{FinishReason: reason})
	})
}

// finish ends a request that may have ended, or may never have been.
func (s *Service) finish(ctx context.Context, request string, end *pb.Terminal) {
	err := s.log.Finish(ctx, request, end)
	if err != nil && !errors.Is(err, tokenlog.ErrFinished) && !errors.Is(err, tokenlog.ErrUnknown) && ctx.Err() == nil {
		s.d.Logger.Warn("ending a request", "request", request, "reason", end.FinishReason, "error", err)
	}
}

// cancel ends a request as its producer would.
func (s *Service) cancel(request string) { s.signal(s.d.Subjects.Cancelled(request)) }

// foundStop tells attention that an answer has its stop string.
func (s *Service) foundStop(request string) { s.signal(s.d.Subjects.Stop(request)) }

// signal sends a message whose subject says all.
func (s *Service) signal(subject string) {
	if err := s.d.Conn.Tell(subject, schemas.SignalBody(subject)); err != nil {
		s.d.Logger.Warn("sending a signal", "subject", subject, "error", err)
	}
}

// isSignal counts what is none.
func (s *Service) isSignal(m *nats.Msg) bool {
	is := schemas.IsSignal(m.Subject, m.Data)
	if !is {
		s.metrics.Refused.Inc()
	}
	return is
}
