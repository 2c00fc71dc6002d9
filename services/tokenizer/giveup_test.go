package tokenizer

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// tire delivers every prompt that waits so often that its next delivery is one
// too many, as replicas do that go away with it.
func (r *rig) tire() {
	r.t.Helper()
	q, err := r.d.Conn.Queue(r.ctx(), bus.QueueSettings{Stream: r.d.Streams.Prompts(), Name: "tokenizer", AckWait: promptAckWait})
	if err != nil {
		r.t.Fatal(err)
	}
	defer q.Stop()
	for n := 0; n < bus.MaxDeliveries; {
		ds, err := q.Pull(r.ctx(), 1)
		if err != nil {
			r.t.Fatal(err)
		}
		n = ds[0].Delivered
		if err := ds[0].Nak(0); err != nil {
			r.t.Fatal(err)
		}
	}
}

// A prompt that many replicas went away with ends as an error.
func TestPromptThatKills(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	got := r.inbox()
	r.prompt(`{"request_id":"a","text":"killer","reply_to":"` + got.subject + `"}`)
	r.tire()
	r.replica()
	if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "10 replicas that had it went away") {
		t.Errorf("ended in %v", e)
	}
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
}

// A prompt whose taking panics ends as an error, once, and others are taken.
func TestPromptThatPanics(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	text := s.model.EncodeText
	s.model.EncodeText = func(p string, special bool) ([]uint32, error) {
		if p == "boom" {
			panic("index out of range")
		}
		return text(p, special)
	}
	got := r.inbox()
	r.prompt(`{"request_id":"a","text":"boom","reply_to":"` + got.subject + `"}`)
	if e := got.end().Error; e.GetCode() != "internal" || !strings.Contains(e.Message, "fault") {
		t.Errorf("ended in %v", e)
	}
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
	r.eventually("both are settled", func() bool {
		info, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Prompts().Name)
		return err == nil && info.CachedInfo().State.Msgs == 0
	})
	if n := len(got.ends()); n != 1 {
		t.Errorf("%d ends", n)
	}
}

// A prompt that looks like a server's status is refused as any other without a
// text, and costs those behind it nothing.
func TestPromptsWithStatusHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	rejected := r.listen(r.d.Subjects.Rejected())
	statuses := []string{"100", "404", "408", "409", "503"}
	for _, status := range statuses {
		m := &nats.Msg{Subject: r.d.Subjects.Prompt(), Header: nats.Header{"Status": {status}}}
		if _, err := r.d.Conn.JetStream().PublishMsg(r.ctx(), m); err != nil {
			t.Fatal(err)
		}
	}
	r.eventually("all are refused", func() bool { return len(rejected.ends()) == len(statuses) })
	r.prompt(`{"request_id":"b","text":"harmless"}`)
	r.opened("b")
	r.eventually("all are settled", func() bool {
		info, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Prompts().Name)
		return err == nil && info.CachedInfo().State.Msgs == 0
	})
}
