package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// timed bounds the time in which clients take their answers, and counts these. A bound stays
// with its connection, so each answer sets it anew.
func (d *Door) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answering{ResponseWriter: w, stall: d.Stall}
		defer func() { d.metrics.Request(r.Pattern, strconv.Itoa(max(a.status, http.StatusOK))) }()
		defer a.watch(r)()
		next.ServeHTTP(a, r)
	})
}

// answering is an answer whose client may take so long to read what is written at once.
type answering struct {
	http.ResponseWriter
	stall time.Duration

	mu     sync.Mutex
	status int    // 0: nothing was sent
	kind   string // of what is sent
	ended  bool   // nothing more is sent
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

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begun says whether anything of an answer was sent.
func begun(w http.ResponseWriter) bool {
	a, is := w.(*answering)
	if !is {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != 0
}
