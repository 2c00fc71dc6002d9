package reply

import (
	"fmt"
	"net/http"
	"time"
)

// Events is a stream of server-sent events. Before the first one the answer has no status yet,
// so that a request which fails before any token has the status of its error.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
	begun   bool
}

// NewEvents prepares a stream whose client may take up to stall to read an event.
func NewEvents(w http.ResponseWriter, stall time.Duration) *Events {
	return &Events{w: w, control: http.NewResponseController(w), stall: stall}
}

// Begun says whether anything was sent.
func (e *Events) Begun() bool { return e.begun }

// Send sends v as one event.
func (e *Events) Send(v any) error { return e.send("", v) }

// Named sends v as one event of a kind.
func (e *Events) Named(event string, v any) error { return e.send("event: "+event+"\n", v) }

func (e *Events) send(before string, v any) error {
	data, err := encode(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	line := make([]byte, 0, len(before)+len(data)+len("data: \n\n"))
	line = append(append(append(append(line, before...), "data: "...), data...), "\n\n"...)
	return e.write(line)
}

// Done ends the stream, for clients that wait for OpenAI's mark.
func (e *Events) Done() error { return e.write([]byte("data: [DONE]\n\n")) }

// write sends bytes at once. A client that does not read within stall is gone.
func (e *Events) write(line []byte) error {
	e.begin()
	_ = e.control.SetWriteDeadline(time.Now().Add(e.stall)) // a recorder in tests has none
	if _, err := e.w.Write(line); err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	if err := e.control.Flush(); err != nil {
		return fmt.Errorf("sending an event: %w", err)
	}
	return nil
}

func (e *Events) begin() {
	if e.begun {
		return
	}
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	e.w.WriteHeader(http.StatusOK)
}
