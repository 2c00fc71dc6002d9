package probe_test

import (
	"testing"
	"time"

	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Messages in the stream of sequences that no tokenizer has stored refuse nobody.
func TestGarbageIsNoRequest(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica(func(c *tokenizer.Config) { c.MaxQueued = 4 })
	r.Prompt(`{"request_id":"one","text":"hi","max_tokens":3}`)
	r.Opened("one")
	for range 20 {
		r.Send(r.D.Subjects.Sequence(), "", []byte(`{"stream":"S","seq":1}`), nil)
	}
	r.Eventually("the stream has them, and the replica has counted its own", func() bool {
		state, err := r.D.Conn.State(r.Ctx(), r.D.Streams.Sequences().Name)
		return err == nil && state.Messages == 21 && s.Probe.Sequences.Queued() == 1
	})
	if n := s.Probe.Sequences.Waiting(r.Ctx(), time.Now().Add(time.Hour)); n != 1 { // no look is so young
		t.Errorf("%d requests wait, want 1", n)
	}
	r.Prompt(`{"request_id":"two","text":"hi","max_tokens":3}`)
	r.Opened("two")
}
