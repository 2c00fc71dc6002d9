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

// limit bounds the connections: all of them by most, and those of an address by its share of these.
// Where there is no room, one that is idle goes for one that comes; else who comes is refused at
// once: to wait would only hide from clients that there are too many. Clients that speak TLS
// are not told why.
func limit(l net.Listener, most int, tls bool) *limited {
	out := &limited{Listener: l, most: most, share: admission.NewPortions(int64(most)), idle: idlers{}, of: map[netip.Addr]idlers{}, told: make(chan struct{}, refusing)}
	if !tls {
		body := fmt.Sprintf(`{"error":{"message":"%d connections may be open at this gateway at a time (--http-max-conns), at most half of them of one address","type":"rate_limit_error","param":null,"code":"overloaded"}}`, most)
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
	of   map[netip.Addr]idlers // the idle ones of each address
}

// idlers are connections without a request, that which is idle for longest first: those
// whose clients have shown no key, and those whose have.
type idlers map[bool]*list.List

// first is the one that goes first; nil: there is none.
func (i idlers) first() *counted {
	for _, keyed := range []bool{false, true} {
		if l := i[keyed]; l != nil && l.Len() > 0 {
			return l.Front().Value.(*counted) //nolint:forcetypeassert // there is nothing else in it
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
	address := addressOf(c.RemoteAddr())
	for !l.share.Take(address.String(), 1) {
		if l.share.Had() < int64(l.most) {
			if !l.evict(address) {
				return nil
			}
		} else if !l.evict(netip.Addr{}) {
			return nil
		}
	}
	own := &counted{Conn: c, socket: c, of: l, address: address}
	own.end = sync.OnceFunc(func() {
		l.note(own, http.StateClosed)
		l.share.Give(address.String(), 1)
	})
	l.note(own, http.StateNew)
	return own
}

// evict closes the connection that is idle for longest, of an address or of all; false: none is idle.
func (l *limited) evict(address netip.Addr) bool {
	l.mu.Lock()
	from := l.idle
	if address.IsValid() {
		from = l.of[address]
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
		own := l.of[c.address]
		own[c.keyed].Remove(c.amongOwn)
		if c.among, c.amongOwn = nil, nil; own.empty() {
			delete(l.of, c.address)
		}
	}
	switch {
	case c.closed:
	case state == http.StateClosed:
		c.closed = true
	case state == http.StateNew, state == http.StateIdle:
		if l.of[c.address] == nil {
			l.of[c.address] = idlers{}
		}
		c.among, c.amongOwn = l.idle.push(c), l.of[c.address].push(c)
	}
}

// knows notes that a connection's client has shown a key. It has a request, and so is not idle.
func (l *limited) knows(c *counted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.keyed = c.keyed || c.among == nil
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

	of      *limited
	address netip.Addr
	// Under of.mu: whether its client has shown a key, where it is among those that are idle,
	// and whether it is closed.
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

// withConn lets requests know their connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own := countedOf(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}
