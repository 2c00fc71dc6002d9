package delivery_test

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// An ask lives while one of its callers waits, and no longer.
func TestAskLivesWhileAnyoneWaits(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{"first leaves first": {0, 1, 2}, "first leaves last": {2, 1, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, 0)
			for range 2 {
				s := r.Unstarted(r.Deployment())
				s.Delivery.Replays.HeldWithin(2 * time.Second) // also where a machine is slow
				r.Start(s)
			}
			var readers []*rig.Reader
			for range order {
				reader := r.Inbox()
				r.Send(r.D.Subjects.Ask(), reader.Subject, []byte(rig.AskBody), nil)
				readers = append(readers, reader)
				r.Opened("one")
			}
			w, i := r.Claim("one"), 0
			step := func() {
				_ = w.Append(rig.Token(i)) // fails when the request is cancelled
				i++
				time.Sleep(50 * time.Millisecond)
			}
			for _, who := range order {
				last := readers[who]
				before := len(last.Chunks())
				r.Eventually("chunks for the one who stays", func() bool { step(); return len(last.Chunks()) > before+5 })
				if r.Terminal("one") != nil {
					t.Fatalf("ended while reader %d waits", who)
				}
				last.Leave()
			}
			r.Eventually("the end", func() bool { step(); return r.Terminal("one") != nil })
			if end := r.Terminal("one"); end.FinishReason != "cancelled" {
				t.Errorf("ended by %v", end)
			}
		})
	}
}

// A caller that does not listen for a moment, as when it reconnects, keeps its request.
func TestAskOutlivesAMomentsAbsence(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Unstarted(r.Deployment())
	s.Delivery.Replays.HeldWithin(time.Millisecond)
	r.Start(s)
	reader := r.Inbox()
	r.Send(r.D.Subjects.Ask(), reader.Subject, []byte(rig.AskBody), nil)
	r.Opened("one")
	w, i := r.Claim("one"), 0
	step := func() {
		if err := w.Append(rig.Token(i)); err != nil {
			t.Fatalf("token %d: %v", i, err)
		}
		i++
		time.Sleep(20 * time.Millisecond)
	}
	r.Eventually("chunks", func() bool { step(); return len(reader.Chunks()) > 2 })
	reader.Leave()
	step()
	r.Eventually("the server's word", func() bool { return s.Delivery.Replays.Absent("one") })
	reader = r.Listen(reader.Subject)
	r.Eventually("chunks again", func() bool { step(); return len(reader.Chunks()) > 5 })
	if end := r.Terminal("one"); end != nil {
		t.Errorf("it has ended: %v", end)
	}
}
