package embedded

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// maxConns bounds connections; where a password is asked for, as many more may be
	// about to give it.
	maxConns = 64
	// maxGroups bounds consumer groups as long as the process runs.
	maxGroups = 32
	// maxLarge bounds how many large messages are held at a time.
	maxLarge = 8
	// trimBytes is how much comes before what is too much goes.
	trimBytes = 4 << 20
)

// guard stands before the broker: it has a port, and what comes there reaches the
// broker if it may.
type guard struct {
	listener net.Listener
	topics   map[string]bool
	login    *login // nil: nobody is asked who he is
	log      *slog.Logger
	dial     func() (net.Conn, error) // the broker
	trim     func()
	large    chan struct{}
	sessions sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	known    int                   // connections that may ask for anything
	strange  map[net.Conn]struct{} // those that have to say who they are first
	conns    map[net.Conn]struct{} // all, and those to the broker
	groups   map[string]bool
	since    int // bytes, when it was trimmed
	told     time.Time
	refusals int // then
}

func newGuard(s Settings) (*guard, error) {
	g := &guard{
		topics: map[string]bool{}, log: s.Logger, large: make(chan struct{}, maxLarge),
		strange: map[net.Conn]struct{}{}, conns: map[net.Conn]struct{}{}, groups: map[string]bool{},
	}
	for _, t := range s.Topics {
		g.topics[t] = true
	}
	var err error
	if s.User != "" {
		if g.login, err = newLogin(s.User, s.Password); err != nil {
			return nil, err
		}
	}
	g.listener, err = listen(s.Listen)
	return g, err
}

// close ends the port and what is connected there. There need be no guard.
func (g *guard) close() {
	if g == nil {
		return
	}
	_ = g.listener.Close() // it was open
	g.mu.Lock()
	g.closed = true
	for c := range g.conns {
		_ = c.Close() // its session ends by that
	}
	g.mu.Unlock()
	g.sessions.Wait()
}

// acceptAgain is the pause after a failure to accept, as for want of descriptors.
const acceptAgain = 50 * time.Millisecond

func (g *guard) serve() {
	for {
		c, err := g.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(acceptAgain)
			continue
		}
		if !g.admit(c) {
			_ = c.Close() // nothing was said
			continue
		}
		g.sessions.Go(func() { g.session(c) })
	}
}

// admit makes room for a connection, if there is any. One that has not said who it is
// goes for the next one: they would keep those out that can.
func (g *guard) admit(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	if g.login == nil {
		if g.known >= maxConns {
			return false
		}
		g.known++
	} else {
		if len(g.strange) >= maxConns {
			for other := range g.strange {
				delete(g.strange, other)
				_ = other.Close() // its session ends by that
				break
			}
		}
		g.strange[c] = struct{}{}
	}
	g.conns[c] = struct{}{}
	return true
}

// welcome says that a connection has said who it is, if there is room for it.
func (g *guard) welcome(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, here := g.strange[c]; !here || g.known >= maxConns {
		return false
	}
	delete(g.strange, c)
	g.known++
	return true
}

func (g *guard) leave(c net.Conn, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.strange, c)
	delete(g.conns, c)
	if known {
		g.known--
	}
}

// keep notes a connection that is closed when the guard is.
func (g *guard) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
	return !g.closed
}

func (g *guard) forget(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// group reports whether a consumer group may be: the broker forgets none.
func (g *guard) group(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.groups[name] && len(g.groups) >= maxGroups {
		return false
	}
	g.groups[name] = true
	return true
}

// took counts what the broker is to store.
func (g *guard) took(bytes int) {
	g.mu.Lock()
	g.since += bytes
	much := g.since >= trimBytes
	if much {
		g.since = 0
	}
	g.mu.Unlock()
	if much {
		g.trim()
	}
}

// tellEvery is the least time between two lines in the log.
const tellEvery = time.Minute

// tell says that a connection was closed, for the first one and then now and then.
func (g *guard) tell(from net.Addr, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refusals++
	if now := time.Now(); g.log != nil && now.Sub(g.told) >= tellEvery {
		g.log.Warn("the embedded Kafka broker closed a connection", "error", err, "from", from.String(), "closed", g.refusals)
		g.told, g.refusals = now, 0
	}
}
