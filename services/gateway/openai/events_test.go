package openai

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// bounded notes the bounds that it is given.
type bounded struct {
	*httptest.ResponseRecorder
	bounds []time.Time
}

func (b *bounded) SetWriteDeadline(until time.Time) error {
	b.bounds = append(b.bounds, until)
	return nil
}

type greeting string

func (g greeting) AppendJSON(to []byte) []byte { return append(append(append(to, '"'), g...), '"') }

// Events are written as they are; the bound of writing them is at least seven eighths of what a
// client may take, however many come.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stall = 8 * time.Second
		w := &bounded{ResponseRecorder: httptest.NewRecorder()}
		e := NewEvents(w, stall)
		for i := range 40 {
			send := func() error { return e.Send(greeting("hi")) }
			if i%2 == 1 {
				send = func() error { return e.Named("kind", map[string]string{"a": "<"}) }
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(w.bounds[len(w.bounds)-1]); left < stall-stall/8 || left > stall {
				t.Errorf("event %d: the client has %v", i, left)
			}
			time.Sleep(stall / 32)
		}
		if n := len(w.bounds); n > 10 {
			t.Errorf("the bound was set %d times", n)
		}
		if err := e.Done(); err != nil {
			t.Fatal(err)
		}
		body := w.Body.String()
		if want := "data: \"hi\"\n\nevent: kind\ndata: {\"a\":\"<\"}\n\n"; body[:len(want)] != want || body[len(body)-14:] != "data: [DONE]\n\n" {
			t.Errorf("%q", body)
		}
	})
}
