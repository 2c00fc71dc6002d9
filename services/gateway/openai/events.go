package openai

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Events is a stream of server-sent events. Before the first one the answer has no status yet,
// so that a request which fails before any token has the status of its error.
type Events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration

	mu    sync.Mutex
	until time.Time // a client that has read nothing until then is gone
	line  []byte    // of an event, written anew for each
	begun bool
	// opening is what is sent before all else, and beat what is sent when nothing else was for
	// a while; nil: nothing is.
	opening, beat []byte
	waits         *time.Timer
	quiet         time.Duration
}

// appender is a value that writes its own JSON.
type appender interface{ AppendJSON(to []byte) []byte }

// NewEvents prepares a stream whose client may take up to stall to read an event.
func NewEvents(w http.ResponseWriter, stall time.Duration) *Events {
	return &Events{w: w, control: http.NewResponseController(w), stall: stall}
}

// Opens has the stream begin with an event before all that are sent.
func (e *Events) Opens(event string, v any) error {
	line, err := appendEvent(nil, event, v)
	e.opening = append(e.opening, line...)
	return err
}

// Comment is a line that clients pass over.
const Comment = ": waiting\n\n"

// Waits has the stream begin, and go on, when nothing is sent for so long: with its opening, and
// with beat. stop ends that.
func (e *Events) Waits(quiet time.Duration, beat string) (stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet, e.beat = quiet, []byte(beat)
	e.waits = time.AfterFunc(quiet, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.waits != nil {
			_ = e.write(e.beat) // a client that is gone is noticed by its request
		}
	})
	return func() { e.Begun() }
}

// Begun reports whether anything was sent. From then on nothing is but events.
func (e *Events) Begun() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waits != nil {
		e.waits.Stop()
		e.waits = nil
	}
	return e.begun
}

// Send sends v as one event.
func (e *Events) Send(v any) error { return e.send("", v) }

// Named sends v as one event of a kind.
func (e *Events) Named(event string, v any) error { return e.send(event, v) }

func (e *Events) send(event string, v any) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line, err = appendEvent(e.line[:0], event, v); err != nil {
		return err
	}
	return e.write(e.line)
}

// appendEvent writes v as an event of a kind; empty: of none.
func appendEvent(line []byte, event string, v any) ([]byte, error) {
	if event != "" {
		line = append(append(append(line, "event: "...), event...), '\n')
	}
	line = append(line, "data: "...)
	if own, is := v.(appender); is {
		line = own.AppendJSON(line)
	} else {
		data, err := Encode(v)
		if err != nil {
			return nil, fmt.Errorf("encoding an event: %w", err)
		}
		line = append(line, data...)
	}
	return append(line, "\n\n"...), nil
}

// Done ends the stream, for clients that wait for OpenAI's mark.
func (e *Events) Done() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write([]byte("data: [DONE]\n\n"))
}

// write sends bytes at once; e.mu is held. A client that does not read within stall is gone, or an
// eighth of it earlier: the bound is not set for each of many events.
func (e *Events) write(line []byte) error {
	if !e.begun {
		e.begin()
		line = append(e.opening, line...)
	}
	now := time.Now()
	if e.waits != nil {
		e.waits.Reset(e.quiet)
	}
	if e.until.Sub(now) < e.stall-e.stall/8 {
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
	e.begun = true
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // of nginx, which would hold events back
	e.w.WriteHeader(http.StatusOK)
}
