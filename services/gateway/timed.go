package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/switchyard/switchyard/schemas"
)

// timed bounds the time in which clients take their answers, and counts these. A bound stays
// with its connection, so each answer sets it anew.
func (d *Door) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answering{ResponseWriter: w, stall: d.Stall, line: accessLine{Time: time.Now()}, anthropic: formOf(r) != nil}
		defer func() {
			a.line.Status, a.line.Route, a.line.Total = max(a.status, http.StatusOK), r.Pattern, seconds(time.Since(a.line.Time))
			d.metrics.Request(r.Pattern, strconv.Itoa(a.line.Status))
			d.access.write(&a.line)
		}()
		defer a.watch(r)()
		if r.ContentLength != 0 { // what of a body nobody reads the server does, before it answers
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(d.Stall / quietPart)) // a recorder in tests has none
		}
		next.ServeHTTP(a, r)
		if own := connOf(r); own != nil && r.ContentLength != 0 && begun(a) {
			_ = a.FlushError()               // the client may be gone
			own.of.note(own, http.StateIdle) // for what is left of the body nobody waits
		}
	})
}

// answering is an answer whose client may take so long to read what is written at once.
type answering struct {
	http.ResponseWriter
	stall time.Duration
	// line is for the access log; who answers the request writes it.
	line accessLine
	// anthropic says that the client is one of Anthropic's API.
	anthropic bool

	mu     sync.Mutex
	status int    // 0: nothing was sent
	kind   string // of what is sent
	ended  bool   // nothing more is sent
	// allowed is what the services said last of the tenant's limits.
	allowed schemas.Allowance
}

// WriteHeader begins the answer.
func (a *answering) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(status)
}

// begin begins the answer; a.mu is held.
func (a *answering) begin(status int) {
	if a.status == 0 {
		a.limitHeaders(time.Now())
		a.status, a.kind = status, a.Header().Get("Content-Type")
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.stall)) // a recorder in tests has none
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes, and begins the answer before.
func (a *answering) Write(data []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.begin(http.StatusOK)
	}
	return a.ResponseWriter.Write(data) // it is who writes that looks at it
}

// FlushError sends what was written.
func (a *answering) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return http.NewResponseController(a.ResponseWriter).Flush() // as Write
}

// allow notes what the services say of the tenant's limits.
func (a *answering) allow(l schemas.Allowance) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed = l
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begun reports whether anything of an answer was sent.
func begun(w http.ResponseWriter) bool {
	a, is := w.(*answering)
	if !is {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != 0
}
