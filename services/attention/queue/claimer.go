package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/attention/engine"
)

// claimer makes this replica the owner of a request.
type claimer struct {
	log     *tokenlog.Log
	logger  *slog.Logger
	engine  Engine
	slots   *slots
	waiting *waiting
	longest time.Duration // how long a request may take
	kept    *grammars
}

// own makes a request a sequence of this replica.
func (c *claimer) own(ctx context.Context, a *arrival) (*engine.Sequence, error) {
	switch {
	case a.hold.Lapsed():
		return nil, errLapsed
	case c.engine.Owns(ctx, a.msg.RequestId):
		return nil, errOurs
	case a.away() && c.begun(ctx, a.msg.RequestId):
		return nil, errLapsed // a sibling gave it back (members.Siblings), and somebody goes on with it
	}
	seq := c.engine.NewSequence(a.msg, a.hold, func(ids int) {
		c.slots.release()
		c.waiting.refund(a, float64(ids))
	})
	if err := c.kept.keep(a.msg, seq); err != nil {
		return seq, &refusedError{a.msg, internal, err}
	}
	return seq, c.claim(ctx, a.msg, seq)
}

// begun says whether somebody has begun a request. What cannot be read, claiming it tells.
func (c *claimer) begun(ctx context.Context, request string) bool {
	begun, err := c.log.Begun(ctx, request)
	return err == nil && begun
}

// claim makes this replica the owner, and takes in what the log has.
func (c *claimer) claim(ctx context.Context, msg *pb.Sequence, seq *engine.Sequence) error {
	writer, history, err := c.log.Claim(ctx, msg.RequestId, msg.Accept, c.engine.Writing(seq))
	if gone := unresumable(err); gone != nil {
		return &refusedError{msg, internal, gone}
	}
	if err != nil {
		return fmt.Errorf("claiming the log of %s: %w", msg.RequestId, err)
	}
	if writer.Doubtful() {
		c.logger.Warn("owner after owner made nothing of a sequence; it is stepped alone", "request", msg.RequestId, "owners", writer.Epoch())
	}
	seq.Resume(writer, history, c.longest)
	return nil
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
func longest(logAge time.Duration) time.Duration { return logAge / 4 * 3 }
