package queue

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/attention/engine"
	"github.com/switchyard/switchyard/services/attention/renewal"
)

// settler settles sequences that are not admitted.
type settler struct {
	log    *tokenlog.Log
	logger *slog.Logger
	kin    *kin
}

// settle tells the queue why a sequence was not admitted.
func (t *settler) settle(ctx context.Context, h *renewal.Hold, err error) {
	if errors.Is(err, errOurs) || errors.Is(err, errLapsed) {
		h.Drop() // it goes on under its first delivery, which keeps it for us, or with its next owner
		return
	}
	if err := h.End(t.unadmitted(ctx, err)); err != nil {
		t.logger.Debug("settling a sequence", "error", err)
	}
}

// admitRetry is the pause before a sequence whose admission failed comes again.
const admitRetry = 500 * time.Millisecond

// unadmitted decides what an error of admission means for the work: an accepted
// request ends in an answer or in an error that its producer sees, so it comes
// again as often as it takes, or its log is ended.
func (t *settler) unadmitted(ctx context.Context, err error) error {
	var foreign *foreignError
	if errors.As(err, &foreign) {
		err = t.kin.settle(ctx, foreign)
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		t.logger.Warn("sequence refused", "error", err)
		err = t.log.End(ctx, refused.seq.RequestId, refused.seq.Accept, engine.ErrorEnd(refused.code, refused.Error()))
		if err == nil && refused.code == internal {
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
	t.logger.Warn("sequence not admitted; it will come again", "error", err)
	return bus.RetryAfter(admitRetry, err)
}

// giveBack leaves a sequence that waited here to others.
func (t *settler) giveBack(a *arrival) {
	if err := a.hold.Nak(0); err != nil {
		t.logger.Debug("giving a sequence back", "request", a.msg.RequestId, "error", err)
	}
}
