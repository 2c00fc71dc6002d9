package gateway

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/switchyard/switchyard/services/gateway/openai"
)

// A client may say all that it has to say and then close its direction of the connection, while it
// reads on; one that has left looks the same, until it is sent something: then its system says that
// nobody is there. So a request whose connection has nothing more to read goes on, and its client is
// sent what changes nothing.

// lookEvery is how often a connection whose client says no more is looked at.
const lookEvery = 20 * time.Millisecond

// half is what a connection knows of the direction that its client may have closed.
type half struct {
	mu     sync.Mutex
	closed bool
	probe  func() // of the request that is answered; nil: there is none that goes on
}

// whenClosed has probe called once the client says no more while a request is answered; stop ends that.
func (h *half) whenClosed(probe func()) (stop func()) {
	h.mu.Lock()
	h.probe = probe
	closed := h.closed
	h.mu.Unlock()
	if closed {
		probe()
	}
	return func() {
		h.mu.Lock()
		h.probe = nil
		h.mu.Unlock()
	}
}

// goesOn reports whether a request goes on, whose client is asked for a sign at the first time.
func (h *half) goesOn() bool {
	h.mu.Lock()
	probe, first := h.probe, !h.closed
	h.closed = true
	h.mu.Unlock()
	if probe != nil && first {
		probe()
	}
	return probe != nil
}

// Read reads what the client sends. While a request is answered the server reads single bytes, to see
// whether the client is there.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for n == 0 && errors.Is(err, io.EOF) && len(p) == 1 && canTell && c.half.goesOn() {
		if time.Sleep(lookEvery); c.gone() {
			break
		}
		n, err = c.Conn.Read(p)
	}
	return n, err //nolint:wrapcheck // as Accept
}

// gone reports whether the client's system has said that nobody is there.
func (c *counted) gone() (gone bool) {
	raw, is := c.socket.(syscall.Conn)
	if !is {
		return true
	}
	conn, err := raw.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { gone = hasError(fd) })
	}
	return gone || err != nil
}

// watch has an answer's client asked for a sign when it says no more; stop ends that. Over TLS the
// end of what a client says is its leaving.
func (a *answering) watch(r *http.Request) (stop func()) {
	c, is := r.Context().Value(connKey{}).(*counted)
	if !is || r.TLS != nil || r.ProtoMajor != 1 || r.ProtoMinor < 1 { // older clients know no informational answers
		return func() {}
	}
	forget := c.half.whenClosed(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		switch {
		case a.ended:
		case a.status == 0: // nothing else writes to the connection
			_, _ = io.WriteString(c.Conn, "HTTP/1.1 100 Continue\r\n\r\n") // who reads sees that the client is gone
		case strings.HasPrefix(a.kind, "text/event-stream"):
			_, _ = io.WriteString(a.ResponseWriter, openai.Comment) // as above
			_ = http.NewResponseController(a.ResponseWriter).Flush()
		}
	})
	return func() {
		forget()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended = true // one that is asked for just now is not
	}
}
