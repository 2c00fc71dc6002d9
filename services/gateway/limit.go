package gateway

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/switchyard/switchyard/pkg/policy/admission"
)

const (
	// refusing is how many connections beyond the bound are told so at a time; further ones are
	// closed at once. It takes no longer than refuseWithin.
	refusing, refuseWithin = 64, 500 * time.Millisecond
	// addressBits is what of an address of IPv6 is one client's: providers give each a network.
	addressBits = 64
)

// limit bounds the connections: all of them by most, and by their shares of these those of an address
// whose clients have shown no key yet, and those of a tenant.
// Where there is no room, one that is idle goes for one that comes; else who comes is refused at
// once: to wait would only hide from clients that there are too many. Clients that speak TLS
// are not told why.
func limit(l net.Listener, most int, tls bool) *limited {
	out := &limited{Listener: l, most: most, share: admission.NewPortions(int64(most)), idle: idlers{}, of: map[string]idlers{}, told: make(chan struct{}, refusing)}
	if !tls {
		body := fmt.Sprintf(`{"error":{"message":"%d connections may be open at this gateway at a time (--http-max-conns), at most half of them of one address or tenant","type":"rate_limit_error","param":null,"code":"overloaded"}}`, most)
		out.refusal = fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return out
}

type limited struct {
	net.Listener
	most    int
	share   *admission.Portions
	told    chan struct{} // has one for each that is told why it is closed
	refusal []byte
	tell    sync.WaitGroup

	mu   sync.Mutex
	idle idlers
	of   map[string]idlers // the idle ones of each address or tenant
}

// idlers are connections without a request, that which is idle for longest first: those
// whose clients have shown no key, and those whose have.
type idlers map[bool]*list.List

// first is the one that goes first; nil: there is none.
func (i idlers) first() *counted {
	for _, keyed := range []bool{false, true} {
		if l := i[keyed]; l != nil && l.Len() > 0 {
			return l.Front().Value.(*counted) //nolint:forcetypeassert,errcheck // there is nothing else in it
		}
	}
	return nil
}

func (i idlers) push(c *counted) *list.Element {
	if i[c.keyed] == nil {
		i[c.keyed] = list.New()
	}
	return i[c.keyed].PushBack(c)
}

func (i idlers) empty() bool { return i.first() == nil }

// Accept waits for a connection for which there is room.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err // the server looks at it
		}
		if own := l.admit(c); own != nil {
			return own, nil
		}
		l.refuse(c)
	}
}

// admit finds room for a connection; nil: there is none.
func (l *limited) admit(c net.Conn) *counted {
	address := addressOf(c.RemoteAddr()).String()
	for !l.share.Take(address, 1) {
		if !l.evict(address) {
			return nil
		}
	}
	own := &counted{Conn: c, socket: c, of: l, sharer: address}
	own.end = sync.OnceFunc(func() {
		l.note(own, http.StateClosed)
		l.share.Give(own.sharer, 1)
	})
	l.note(own, http.StateNew)
	return own
}

// evict closes the connection that is idle for longest: of all if they are as many as may be, else of a
// sharer. False: none is idle.
func (l *limited) evict(sharer string) bool {
	l.mu.Lock()
	from := l.idle
	if l.share.Had() < int64(l.most) {
		from = l.of[sharer]
	}
	c := from.first()
	l.mu.Unlock()
	if c == nil {
		return false
	}
	_ = c.Close() // its client has nothing under way
	return true
}

// note notes whether a connection is idle.
func (l *limited) note(c *counted, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.among != nil {
		l.idle[c.keyed].Remove(c.among)
		own := l.of[c.sharer]
		own[c.keyed].Remove(c.amongOwn)
		if c.among, c.amongOwn = nil, nil; own.empty() {
			delete(l.of, c.sharer)
		}
	}
	switch {
	case c.closed:
	case state == http.StateClosed:
		c.closed = true
	case state == http.StateNew, state == http.StateIdle:
		if l.of[c.sharer] == nil {
			l.of[c.sharer] = idlers{}
		}
		c.among, c.amongOwn = l.idle.push(c), l.of[c.sharer].push(c)
	}
}

// knows notes that a connection's client has shown a tenant's key, which has its share of the connections
// then, and no more: false. An empty name is that of clients that need no key.
func (l *limited) knows(c *counted, tenant string) bool {
	sharer := "tenant " + tenant
	for !l.moves(c, sharer, tenant != "") {
		if !l.evict(sharer) {
			return false
		}
	}
	return true
}

// moves counts a connection that has a request as one of a sharer, and as keyed; false: that has its share.
func (l *limited) moves(c *counted, sharer string, shared bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.keyed || c.closed {
		return true
	}
	if shared {
		if !l.share.Move(c.sharer, sharer, 1) {
			return false
		}
		c.sharer = sharer
	}
	c.keyed = true
	return true
}

// addressOf is whose a connection is.
func addressOf(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.IPv4Unspecified() // of a listener that has no addresses
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is6() {
		network, _ := address.Prefix(addressBits) // it has more
		return network.Addr()
	}
	return address
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

	of *limited
	// Under of.mu: whose share it has, whether its client has shown a key, where it is among those that
	// are idle, and whether it is closed.
	sharer          string
	keyed           bool
	among, amongOwn *list.Element
	closed          bool
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close() // as Accept
}

// countedOf is a server's connection as it was accepted; nil: it was not counted.
func countedOf(c net.Conn) *counted {
	if over, is := c.(*tls.Conn); is {
		c = over.NetConn()
	}
	own, _ := c.(*counted)
	return own
}

// noteState has connections that are idle be known.
func noteState(c net.Conn, state http.ConnState) {
	if own := countedOf(c); own != nil {
		own.of.note(own, state)
	}
}

type connKey struct{}

// connOf is a request's connection if that has no other request; nil: it has, or was not counted.
func connOf(r *http.Request) *counted {
	own, _ := r.Context().Value(connKey{}).(*counted)
	if r.ProtoMajor != 1 {
		return nil
	}
	return own
}

// withConn lets requests know their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own := countedOf(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}
