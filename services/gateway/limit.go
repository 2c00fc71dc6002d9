package gateway

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

const (
	// refusing is how many connections beyond the bound are told so at a time; further ones are
	// closed at once. It takes no longer than refuseWithin.
	refusing, refuseWithin = 64, 500 * time.Millisecond
)

// limit refuses connections beyond most at once: to let them wait would only hide from their
// clients that there are too many. Clients that speak TLS are not told why.
func limit(l net.Listener, most int, tls bool) net.Listener {
	out := &limited{Listener: l, free: make(chan struct{}, most), told: make(chan struct{}, refusing)}
	if !tls {
		body := fmt.Sprintf(`{"error":{"message":"%d connections may be open at this gateway at a time (--http-max-conns)","type":"rate_limit_error","param":null,"code":"overloaded"}}`, most)
		out.refusal = fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return out
}

type limited struct {
	net.Listener
	free    chan struct{} // has an item for each open connection
	told    chan struct{} // has one for each that is told why it is closed
	refusal []byte
	tell    sync.WaitGroup
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
			return &counted{Conn: c, socket: c, end: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			l.refuse(c)
		}
	}
}

// refuse closes a connection, and says why if there is room to.
func (l *limited) refuse(c net.Conn) {
	select {
	case l.told <- struct{}{}:
	default:
		_ = c.Close() // nothing was sent
		return
	}
	l.tell.Go(func() {
		defer func() { _ = c.Close(); <-l.told }()
		_ = c.SetDeadline(time.Now().Add(refuseWithin))
		_, _ = c.Write(l.refusal) // the client may be gone
		if half, can := c.(interface{ CloseWrite() error }); can {
			_ = half.CloseWrite()
			_, _ = io.CopyN(io.Discard, c, mostHeader) // closing before it is read would take back what was sent
		}
	})
}

// Close ends accepting.
func (l *limited) Close() error {
	defer l.tell.Wait()
	return l.Listener.Close() // as Accept
}

// counted gives its place back when it is closed.
type counted struct {
	net.Conn
	socket net.Conn // as it was accepted
	end    func()
	half   half
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close() // as Accept
}
