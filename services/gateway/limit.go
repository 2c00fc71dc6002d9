package gateway

import (
	"net"
	"sync"
)

// limit closes connections beyond most at once: to let them wait would only hide from their
// clients that there are too many.
func limit(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, free: make(chan struct{}, most)}
}

type limited struct {
	net.Listener
	free chan struct{} // has an item for each open connection
}

// Accept waits for a connection for which there is room.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // the server looks at it
		}
		select {
		case l.free <- struct{}{}:
			return &counted{Conn: c, end: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			_ = c.Close() // nothing was sent
		}
	}
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	end func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close() // as Accept
}
