package probe

import (
	"sync"
	"time"
)

// ServerClock tells the servers' time, by what they say when a stream is looked at.
// Producers' deadlines are judged by it: this host's own clock may be minutes off,
// which would end requests that have time, or let late ones run.
type ServerClock struct {
	Here func() time.Time // this host's

	mu sync.Mutex
	// server was the servers' time when it was at here; zero: none has told.
	server, at time.Time
	within     time.Duration // how long the look took that set it
}

// exactLook is how long a look may take that sets the clock again, or as long as the
// one that set it took: the server read its own at some moment of it.
const exactLook = 100 * time.Millisecond

// set takes in what a server's clock showed between a question and its answer.
func (c *ServerClock) set(server, asked, answered time.Time) {
	if server.IsZero() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if took := answered.Sub(asked); c.at.IsZero() || took <= max(exactLook, c.within) {
		c.server, c.at, c.within = server, asked.Add(took/2), took
	}
}

// Now is the servers' time, or this host's until a server has told its own.
func (c *ServerClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := c.Here()
	if c.at.IsZero() {
		return here
	}
	return c.server.Add(here.Sub(c.at))
}
