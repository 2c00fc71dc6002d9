package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/transport/leaving"
)

// served notes that the server was of use.
func (c *Client) served() { c.useless.End() }

// unserved notes that nothing came of what was asked of the server. When that has
// been so for long, the connection goes to another one, if it knows of any.
func (c *Client) unserved(now time.Time) {
	if n := c.nc.Stats().Reconnects; c.reconnects.Swap(n) != n {
		c.useless.End() // that was another server
	}
	c.useless.Fail(now)
	if c.useless.Length() >= c.leaveAfter && leaving.Possible(c.nc) {
		c.useless.End()
		_ = c.nc.ForceReconnect() // fails on a closed connection, which others notice
		c.left.Add(1)             // last: what is asked from now on, another server answers
	}
}

// leaveHung goes to another server when this one does not answer at all. One that hangs
// keeps its connections, and the library's own look at them takes minutes.
func (c *Client) leaveHung(ctx context.Context) {
	before := c.nc.Stats().Reconnects
	answered, cancel := context.WithTimeout(ctx, c.settings.Silence)
	defer cancel()
	err := c.nc.FlushWithContext(answered)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && c.nc.Stats().Reconnects == before && leaving.Possible(c.nc) {
		_ = c.nc.ForceReconnect() // as above
	}
}

func (c *Client) judge(err error) {
	var api *jetstream.APIError
	switch {
	case useless(err):
		c.unserved(time.Now())
	case err == nil, errors.As(err, &api):
		c.served()
	}
}

// unavailable is JetStream's code for what it cannot do now.
const unavailable = 503

// useless reports whether an error of publishing tells of a server that can do nothing
// now. One whose stream is full can.
func useless(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == unavailable && !slices.Contains(streamFull, api.ErrorCode)
	}
	return noStream(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
}

// noStream reports whether nobody listened: there is no stream of prompts, its leader is
// being elected, or the server is cut off from it.
func noStream(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// mayReturn reports whether a stream that was not there may be at another server, or
// here when a leader is elected. A server that is left had time for both, so that what
// the next one says counts. begun and asked are how many servers had been left when the
// prompt was published first and last.
func (c *Client) mayReturn(err error, begun, asked uint64) bool {
	return noStream(err) && leaving.Possible(c.nc) && asked == begun
}
