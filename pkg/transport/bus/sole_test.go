package bus

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// toGate is how a gate receives what is sent to it by name.
func toGate(s schemas.Streams, id string) Receiver {
	return Receiver{Stream: s.Gate(), Name: id, Subject: s.Subjects.Gate(id), Sole: true}
}

// counted begins to receive, and counts.
func (r *rig) counted(c *Conn, mode schemas.Hops, rc Receiver) *atomic.Int64 {
	r.t.Helper()
	got := &atomic.Int64{}
	running, err := NewHop(c, mode).Receive(r.ctx(), rc, func(context.Context, *Msg) error {
		got.Add(1)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { running.Stop(); <-running.Closed() })
	return got
}

// Who alone receives from a subject has a stream with acked hops only, and gets everything in all
// modes, after a restart of the server, too.
func TestSole(t *testing.T) {
	t.Parallel()
	for _, mode := range allHops {
		t.Run(string(mode), func(t *testing.T) {
			r := newRig(t)
			s, h := names(mode), NewHop(r.conn, mode)
			got := r.counted(r.conn, mode, toGate(s, "a"))
			for range 200 {
				if err := h.Send(r.ctx(), s.Subjects.Gate("a"), hidden(100)); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Eventually(t, "all delivered", func() bool { return got.Load() == 200 })
			if err := h.Ensure(r.ctx(), toGate(s, "b")); err != nil {
				t.Error(err)
			}
			_, err := r.conn.js.Stream(r.ctx(), s.Gate().Name)
			if stored := err == nil; stored != (mode == schemas.HopsAcked) || !stored && !errors.Is(err, jetstream.ErrStreamNotFound) {
				t.Errorf("the stream: %v", err)
			}
			for _, id := range []string{"a", "b"} {
				if mode != schemas.HopsAcked {
					break
				}
				c, err := r.conn.js.Consumer(r.ctx(), s.Gate().Name, id)
				if err != nil || c.CachedInfo().Config.InactiveThreshold != privateFor {
					t.Errorf("the consumer of %s would stay when its replica is gone: %v", id, err)
				}
			}
			r.restart()
			testkit.Eventually(t, "a message after the restart", func() bool {
				_ = h.Send(r.ctx(), s.Subjects.Gate("a"), hidden(10)) // may fail while disconnected
				return got.Load() > 200
			})
		})
	}
}

// What a client drops, as its replica is too slow, is told with the subject.
func TestSoleTooSlow(t *testing.T) {
	r := newRig(t)
	logged := make(lineChan, 16)
	r.conn.log = slog.New(slog.NewTextHandler(logged, nil))
	s, h, release := names(schemas.HopsUnacked), NewHop(r.conn, schemas.HopsUnacked), make(chan struct{})
	running, err := h.Receive(r.ctx(), toGate(s, "a"), func(context.Context, *Msg) error { <-release; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := running.sub.SetPendingLimits(1, -1); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if err := h.Send(r.ctx(), s.Subjects.Gate("a"), hidden(10)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case line := <-logged:
		if !strings.Contains(line, nats.ErrSlowConsumer.Error()) || !strings.Contains(line, s.Subjects.Gate("a")) {
			t.Errorf("told: %s", line)
		}
	case <-time.After(testkit.Patience):
		t.Error("nothing is told")
	}
	close(release)
	running.Stop()
	<-running.Closed()
}

// lineChan has the lines of a log.
type lineChan chan string

func (l lineChan) Write(line []byte) (int, error) { l <- string(line); return len(line), nil }

// A connection that a replica has lost, and the server has not, takes no share of what comes.
func TestSoleTwice(t *testing.T) {
	r := newRig(t)
	s, h := names(schemas.HopsUnacked), NewHop(r.conn, schemas.HopsUnacked)
	lost := r.connect(nil)
	t.Cleanup(lost.Close)
	before := r.counted(lost, schemas.HopsUnacked, toGate(s, "a"))
	now := r.counted(r.conn, schemas.HopsUnacked, toGate(s, "a"))
	for range 100 {
		if err := h.Send(r.ctx(), s.Subjects.Gate("a"), hidden(10)); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "all come on both", func() bool { return now.Load() == 100 && before.Load() == 100 })
}

// Releases before this one received out of streams. Their receivers and these get what is theirs,
// whoever sends, and a stream of theirs keeps nothing of what is meant for these.
func TestSoleBesideEarlier(t *testing.T) {
	r := newRig(t)
	mode := schemas.HopsUnacked
	s, h := names(mode), NewHop(r.conn, mode)
	earlier := r.counted(r.conn, mode, Receiver{Stream: s.Gate(), Name: "earlier", Subject: s.Subjects.Gate("earlier"), Private: true})
	now := r.counted(r.conn, mode, toGate(s, "now"))
	for range 100 {
		for _, id := range []string{"earlier", "now"} {
			if err := h.Send(r.ctx(), s.Subjects.Gate(id), hidden(10)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Eventually(t, "both have theirs", func() bool { return earlier.Load() == 100 && now.Load() == 100 })
	testkit.Eventually(t, "nothing is kept", func() bool {
		stream, err := r.conn.js.Stream(r.ctx(), s.Gate().Name)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}
