package members

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/internal/testkit/testserver"
)

// answer is what a server says when it is asked for somebody.
type answer int

const (
	here answer = iota
	absent
	gap    // absent, and the own connection was away meanwhile
	denied // one may not ask
)

// script is a server that answers as it is written; the last answer goes on.
type script struct {
	mu      sync.Mutex
	answers []answer
	asked   int
	gaps    bool
}

func (s *script) Absent(context.Context, string, time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	s.gaps = a == gap
	if a == denied {
		return false, errors.New("denied")
	}
	return a != here, nil
}

func (s *script) Gap() func() bool {
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.gaps
	}
}

func (s *script) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *script) Subscribe(string, string, nats.MsgHandler) (*nats.Subscription, error) {
	return nil, errors.New("not used")
}
func (s *script) SendBytes(context.Context, string, []byte, nats.Header) error { return nil }

func watcher(s *script) *LivenessWatcher {
	w := NewLivenessWatcher(s, func(id string) string { return "here." + id })
	w.pauses = pauses{}
	return w
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestGone(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []answer
		asks    int // by which it is gone; 0: it never is
	}{
		{"killed", []answer{here, here, absent}, 6},
		{"never here", []answer{absent}, 4},
		{"back in time", []answer{absent, absent, absent, here}, 0},
		{"back, then gone", []answer{absent, absent, absent, here, absent}, 8},
		{"while we were away", []answer{absent, absent, absent, gap, here}, 0},
		{"since we are back", []answer{absent, absent, absent, gap, absent}, 8},
		{"not permitted", []answer{absent, denied}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{answers: c.answers}
			gone, stop := watcher(s).Watch("a")
			defer stop()
			if c.asks == 0 {
				testkit.Eventually(t, "asked", func() bool { return s.asks() >= len(c.answers) })
				if isClosed(gone) {
					t.Error("it is gone")
				}
				return
			}
			<-gone
			if n := s.asks(); n != c.asks {
				t.Errorf("gone after %d questions, want %d", n, c.asks)
			}
		})
	}
}

// All who look for a replica share what is found, and the last one ends it.
func TestShared(t *testing.T) {
	s := &script{answers: []answer{here}}
	w := watcher(s)
	one, stopOne := w.Watch("a")
	other, stopOther := w.Watch("a")
	if one != other {
		t.Error("it is looked for twice")
	}
	stopOne()
	stopOne() // once more changes nothing
	s.mu.Lock()
	s.answers = []answer{absent}
	s.mu.Unlock()
	<-other
	again, stop := w.Watch("a")
	if again == other {
		t.Error("who was gone is not looked for anew")
	}
	stopOther()
	stop()
	if len(w.watched) != 0 {
		t.Errorf("%d are still looked for", len(w.watched))
	}
}

// A server tells a replica that listens from one that does not any more.
func TestServer(t *testing.T) {
	conn := testserver.Connect(t)
	l, err := ListenHere(t.Context(), conn, "here.a")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "heard", l.Heard)
	w := NewLivenessWatcher(conn, func(id string) string { return "here." + id })
	w.pauses = pauses{answer: time.Minute / 2, every: time.Millisecond}
	if gone, err := conn.Absent(t.Context(), "here.a", time.Millisecond); gone || err != nil {
		t.Errorf("it listens, and is gone: %v, %v", gone, err)
	}
	l.Stop()
	gone, stop := w.Watch("a")
	defer stop()
	<-gone
}
