package openai

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
	until   time.Time // a client that has read nothing until then is gone
	line    []byte    // of an event, written anew for each
	begun   bool
}

// appender is a value that writes its own JSON.
type appender interface{ AppendJSON(to []byte) []byte }

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
	line := append(append(e.line[:0], before...), "data: "...)
	if own, is := v.(appender); is {
		line = own.AppendJSON(line)
	} else {
		data, err := Encode(v)
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		line = append(line, data...)
	}
	line = append(line, "\n\n"...)
	e.line = line
	return e.write(line)
}

// Done ends the stream, for clients that wait for OpenAI's mark.
func (e *Events) Done() error { return e.write([]byte("data: [DONE]\n\n")) }

// write sends bytes at once. A client that does not read within stall is gone, or an eighth of
// it earlier: the bound is not set for each of many events.
func (e *Events) write(line []byte) error {
	e.begin()
	if now := time.Now(); e.until.Sub(now) < e.stall-e.stall/8 {
		e.until = now.Add(e.stall)
		_ = e.control.SetWriteDeadline(e.until) // a recorder in tests has none
	}
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
