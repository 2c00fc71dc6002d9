package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/request/edge"
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
	// maxDeadlines bounds the deadlines that a replica watches for requests that wait.
	maxDeadlines = 100_000
	// deadlineGrace is how long an attention replica has to end a late request itself.
	deadlineGrace = 600 * time.Millisecond
)

// Endings are the requests that are ended here: cancelled ones, those with their stop
// string, and late ones.
type Endings struct {
	*common
	cancelled *recently
	// soon are requests that end unless attention ends them before; overdue are those whose
	// deadline passes while they wait.
	soon, overdue *timers
}

func newEndings(c *common) *Endings {
	return &Endings{
		common: c, cancelled: newRecently(maxCancelled, cancelledFor),
		soon: newTimers(maxEnding, endingAtOnce), overdue: newTimers(maxDeadlines, endingAtOnce),
	}
}

// onCancelled remembers what was cancelled; every replica hears it.
func (s *Endings) onCancelled(m *nats.Msg) {
	if request := schemas.LastToken(m.Subject); s.isSignal(m) && schemas.CheckRequestID(request) == nil {
		s.cancelled.add(request, time.Now())
	}
}

// onCancelledOne ends requests that no attention replica has: those that wait.
func (s *Endings) onCancelledOne(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "cancelled")
	}
}

// onStop ends a request that has its stop string, if attention lost the message.
func (s *Endings) onStop(m *nats.Msg) {
	if s.isSignal(m) {
		s.endSoon(schemas.LastToken(m.Subject), "stop")
	}
}

// endSoon ends a request unless attention does it before.
func (s *Endings) endSoon(request, reason string) {
	if err := schemas.CheckRequestID(request); err != nil {
		s.metrics.Refused.Inc()
		s.d.Logger.Debug("not ending a request", "error", err)
		return
	}
	s.soon.note(request, cancelGrace, func(ctx context.Context) {
		s.Finish(ctx, request, &pb.Terminal{FinishReason: reason})
	})
}

// Finish ends a request that may have ended, or may never have been.
func (s *Endings) Finish(ctx context.Context, request string, end *pb.Terminal) {
	err := s.log.Finish(ctx, request, end)
	if err != nil && !errors.Is(err, tokenlog.ErrFinished) && !errors.Is(err, tokenlog.ErrUnknown) && ctx.Err() == nil {
		s.d.Logger.Warn("ending a request", "request", request, "reason", end.FinishReason, "error", err)
	}
}

// Cancel ends a request as its producer would.
func (s *Endings) Cancel(request string) { s.signal(s.d.Subjects.Cancelled(request)) }

// foundStop tells attention that an answer has its stop string.
func (s *Endings) foundStop(request string) { s.signal(s.d.Subjects.Stop(request)) }

// Cancelled says whether a request was cancelled lately, as before it came.
func (s *Endings) Cancelled(request string) bool { return s.cancelled.has(request, time.Now()) }

// EndOverdue ends a request that waits for attention past its deadline. An
// attention replica that has it, or gets it later, sees to that itself.
func (s *Endings) EndOverdue(request string, left time.Duration) {
	if left == 0 {
		return
	}
	s.overdue.note(request, left+deadlineGrace, func(ctx context.Context) {
		late := edge.Errorf(edge.DeadlineExceeded, "the deadline passed while the request waited")
		s.Finish(ctx, request, &pb.Terminal{FinishReason: "error", Error: edge.Proto(late)})
	})
}
