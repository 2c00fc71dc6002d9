package bus

import (
	"errors"
	"fmt"
	"time"
)

// ErrClosed is what a connection that is closed for good reports: the server
// has refused to go on with it, or Close was called.
var ErrClosed = errors.New("the NATS connection is closed for good")

// Ready returns nil, since when nothing can be sent, or which streams others are to make.
func (c *Conn) Ready() error {
	if err := c.Live(); err != nil {
		return err
	}
	if at := c.lostAt.Load(); at != nil {
		return fmt.Errorf("no NATS connection for %v", time.Since(*at).Round(100*time.Millisecond))
	}
	return c.lacksAny()
}

// Live returns nil, or that only a new connection can help.
func (c *Conn) Live() error {
	if !c.nc.IsClosed() {
		return nil
	}
	if why := c.nc.LastError(); why != nil && !c.stopping.Load() {
		return fmt.Errorf("%w: %w", ErrClosed, why)
	}
	return ErrClosed
}

// Gap begins to look after the connection; what it returns says whether there
// was a moment without one since.
func (c *Conn) Gap() func() bool {
	back, whole := c.Reconnection(), c.nc.IsConnected()
	return func() bool {
		select {
		case <-back:
			return true
		default:
			return !whole || !c.nc.IsConnected()
		}
	}
}
