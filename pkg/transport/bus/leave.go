package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/leaving"
)

// A connection leaves its server (pkg/transport/leaving) by what JetStream does for
// it there.

// streak is of what was asked of JetStream.
type streak struct{ leaving.Streak }

func (s *streak) note(err error, now time.Time) {
	switch {
	case err == nil:
		s.End()
	case fruitless(err):
		s.Fail(now)
	}
}

// trials are what JetStream does for a connection. They are apart, because a
// server that is cut off goes on telling what it knew.
type trials struct{ storing, asking streak }

func (t *trials) failFor() time.Duration { return max(t.storing.Length(), t.asking.Length()) }

func (t *trials) reset() {
	t.storing.note(nil, time.Time{})
	t.asking.note(nil, time.Time{})
}

// fruitless reports whether an error tells of a server that can do nothing now.
func fruitless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 && !IsFull(err)
	}
	return !errors.Is(err, nats.ErrPermissionViolation) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAckLost) || errors.Is(err, jetstream.ErrNoStreamResponse))
}

// leaveUseless goes to another server when this one has been of no use for too long.
func (c *Conn) leaveUseless() {
	if c.trials.failFor() < leaving.After || !leaving.Possible(c.nc) {
		return
	}
	c.leave("JetStream does nothing here; trying another server", "for", leaving.After)
}

// leave goes to another server, and says why.
func (c *Conn) leave(why string, keys ...any) {
	c.trials.reset()
	c.log.Warn(why, append(c.where(), keys...)...)
	if err := c.nc.ForceReconnect(); err != nil {
		c.log.Warn("cannot leave the server", "error", err)
	}
}
