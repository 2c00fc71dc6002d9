package bus

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/leaving"
)

// ErrClosed is what a connection that is closed for good reports: the server
// has refused to go on with it, or Close was called.
var ErrClosed = errors.New("the NATS connection is closed for good")

// Ready returns nil, since when nothing can be sent, that the server of this process cannot write, or
// which streams take no message or others are to make.
func (c *Conn) Ready() error {
	if err := c.Live(); err != nil {
		return err
	}
	if own, tells := c.nc.Opts.InProcessServer.(interface{ Ready() error }); tells {
		if err := own.Ready(); err != nil {
			return err
		}
	}
	if at := c.lostAt.Load(); at != nil {
		return fmt.Errorf("no NATS connection for %v", time.Since(*at).Round(100*time.Millisecond))
	}
	if err := c.unstored.ready(time.Now()); err != nil {
		return err
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

// Gap begins to look after the connection; what it returns reports whether there
// was a moment since without one, or with a server that hangs.
func (c *Conn) Gap() func() bool {
	back, whole, hangs := c.Reconnection(), c.Hears(), c.pulse.hangs.Load()
	return func() bool {
		select {
		case <-back:
			return true
		default:
			return !whole || !c.Hears() || c.pulse.hangs.Load() != hangs
		}
	}
}

const (
	// pulseEvery is how often a server from which nothing came is asked whether it lives.
	pulseEvery = 250 * time.Millisecond
	// hungAfter is the silence from which on a server hangs: two questions without an answer.
	hungAfter = 2 * pulseEvery
	// leaveAfter is the silence after which another server is tried. It doubles with each
	// server that is left so: where all are silent, it is the machine or the network that hangs.
	leaveAfter = time.Second
	// calmAfter is how long a server has to answer until the next one is left as soon as the first.
	calmAfter = time.Minute
)

// pulse is whether a server gives signs of life. A server that hangs keeps its connections
// open, and the client library's own pings take ten seconds and more to notice.
type pulse struct {
	hung  atomic.Bool
	hangs atomic.Uint64 // how often one has begun to hang

	// followPulse's alone.
	seen          uint64 // messages that had come
	silent, heard time.Duration
	patience      time.Duration // until another server is tried
}

// Hears reports whether there is a connection to a server that gives signs of life. While
// there is none, nobody's silence says anything.
func (c *Conn) Hears() bool { return !c.pulse.hung.Load() && c.nc.IsConnected() }

// followPulse asks the server for signs of life until the connection is closed.
func (c *Conn) followPulse() {
	c.pulse.patience = leaveAfter
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-c.closed:
			return
		case <-tick.C:
		}
		lives := !c.nc.IsConnected() || c.signOfLife() // without a connection the client library looks for one
		now := time.Now()
		passed := min(now.Sub(last), 2*pulseEvery) // a process that was suspended must not blame the server
		last = now
		useless := c.pulse.beat(passed, lives)
		c.linkedAs(lives)
		if useless && leaving.Possible(c.nc) {
			c.leave("the NATS server does not answer; trying another", "for", c.pulse.silent)
			c.pulse.patience = min(2*c.pulse.patience, leaving.After)
			c.pulse.silent = 0
		}
	}
}

// linkedAs counts a connection as away while its server hangs: nothing comes of it either.
func (c *Conn) linkedAs(lives bool) {
	switch {
	case c.stopping.Load() || c.nc.IsClosed():
	case !c.nc.IsConnected() || c.pulse.hung.Load():
		c.linked(Away)
	case lives:
		c.linked(Connected)
	}
}

// signOfLife reports whether something has come since it was last called, or comes when it
// is asked for.
func (c *Conn) signOfLife() bool {
	now := atomic.LoadUint64(&c.nc.InMsgs)
	came := now != c.pulse.seen
	c.pulse.seen = now
	return came || c.nc.FlushTimeout(pulseEvery) == nil
}

// beat takes in that a server has been heard or silent for some time, and reports whether it
// has been silent for too long to stay with it.
func (p *pulse) beat(passed time.Duration, lives bool) (useless bool) {
	if lives {
		p.silent = 0
		p.hung.Store(false)
		if p.heard += passed; p.heard >= calmAfter {
			p.patience = leaveAfter
		}
		return false
	}
	p.heard, p.silent = 0, p.silent+passed
	if p.silent >= hungAfter && !p.hung.Swap(true) {
		p.hangs.Add(1)
	}
	return p.silent >= p.patience
}
