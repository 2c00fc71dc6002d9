package gateway

import (
	"net/http"
	"strconv"
	"time"
)

// timed bounds the time in which clients take their answers, and counts these. A bound stays
// with its connection, so each answer sets it anew.
func (d *Door) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answering{ResponseWriter: w, stall: d.Stall}
		defer func() { d.metrics.Request(r.Pattern, strconv.Itoa(max(a.status, http.StatusOK))) }()
		next.ServeHTTP(a, r)
	})
}

// answering is an answer whose client may take so long to read what is written at once.
type answering struct {
	http.ResponseWriter
	stall  time.Duration
	status int // 0: nothing was sent
}

// WriteHeader begins the answer.
func (a *answering) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		_ = http.NewResponseController(a.ResponseWriter).SetWriteDeadline(time.Now().Add(a.stall)) // a recorder in tests has none
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write writes, and begins the answer before.
func (a *answering) Write(data []byte) (int, error) {
	if a.status == 0 {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(data) // it is who writes that looks at it
}

// Unwrap is for http.ResponseController.
func (a *answering) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begun says whether anything of an answer was sent.
func begun(w http.ResponseWriter) bool {
	a, is := w.(*answering)
	return is && a.status != 0
}
