package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A server of a cluster that is cut off from the others, or has no disk any
// more, keeps its clients and does nothing for them. A client that knows of
// other servers leaves it for one of those.

// leaveAfter is how long JetStream may do nothing before a client looks for
// another server: longer than the election of a leader, which looks alike and
// passes.
const leaveAfter = 10 * time.Second

// judge notes whether JetStream works, by what became of something.
func (c *Conn) judge(err error) {
	switch {
	case err == nil:
		c.fails.Store(0)
	case fruitless(err):
		c.fails.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// fruitless says whether an error tells of a server that can do nothing now.
func fruitless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503 && !IsFull(err)
	}
	return !errors.Is(err, nats.ErrPermissionViolation) &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAckLost) || errors.Is(err, jetstream.ErrNoStreamResponse))
}

// leaveUseless goes to another server when this one has been of no use for too long.
func (c *Conn) leaveUseless(now time.Time) {
	since := c.fails.Load()
	if since == 0 || now.UnixNano()-since < int64(leaveAfter) || !c.nc.IsConnected() || len(c.nc.Servers()) < 2 {
		return
	}
	c.fails.Store(0)
	c.log.Warn("JetStream does nothing here; trying another server", "url", c.nc.ConnectedUrlRedacted(), "for", leaveAfter)
	if err := c.nc.ForceReconnect(); err != nil {
		c.log.Warn("cannot leave the server", "error", err)
	}
}
