package probe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Depths follow the queues, also when no further prompt comes, and are not
// there when NATS does not tell them.
func TestQueueDepth(t *testing.T) {
	r := rig.New(t, 0)
	s := r.Replica()
	depth := func(kind string, n int) bool {
		return strings.Contains(r.Metrics(s), fmt.Sprintf("switchyard_queue_depth{stream=%q} %d\n", kind, n))
	}
	for i := range 3 {
		r.Send(r.D.Subjects.Prompt(), "", fmt.Appendf(nil, `{"text":"one","request_id":"r%d"}`, i), nil)
	}
	r.Eventually("three sequences wait", func() bool { return depth("sequence", 3) && depth("prompt", 0) })
	r.Eventually("how full the token log is", func() bool { // unless the last look at it is too old
		return strings.Contains(r.Metrics(s), `switchyard_stream_fill_ratio{stream="token"} `)
	})
	stream, err := r.D.Conn.JetStream().Stream(r.Ctx(), r.D.Streams.Sequences().Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(r.Ctx()); err != nil {
		t.Fatal(err)
	}
	r.Eventually("none waits", func() bool { return depth("sequence", 0) })
	r.Srv.Shutdown()
	r.Eventually("nobody knows", func() bool { return !strings.Contains(r.Metrics(s), "switchyard_queue_depth{") })
}

// A consumer that somebody has paused makes a replica unready, by name, until it goes on: each of both queues.
func TestPausedConsumer(t *testing.T) {
	r := rig.New(t, 0)
	s := r.Replica()
	js := r.D.Conn.JetStream()
	queue, err := r.D.Conn.Queue(r.Ctx(), bus.QueueSettings{Stream: r.D.Streams.Sequences(), Name: "attention", Subject: r.D.Subjects.Sequence()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(queue.Stop)
	for _, q := range [][2]string{{r.D.Streams.Prompts().Name, "tokenizer"}, {r.D.Streams.Sequences().Name, "attention"}} {
		if _, err := js.PauseConsumer(r.Ctx(), q[0], q[1], time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		r.Eventually("it is named", func() bool {
			err := s.Ready()
			return err != nil && strings.Contains(err.Error(), fmt.Sprintf("nats consumer resume %s %s", q[0], q[1]))
		})
		if _, err := js.ResumeConsumer(r.Ctx(), q[0], q[1]); err != nil {
			t.Fatal(err)
		}
		r.Eventually("it goes on", func() bool { return s.Probe.Paused() == nil })
	}
}

// Requests for models that nobody serves are counted, whichever way they come.
func TestModelNotFoundIsCounted(t *testing.T) {
	r := rig.New(t, 0)
	s := r.Replica()
	for i, subject := range []string{"switchyard.ask.nobody", "switchyard.prompt.nobody"} {
		got := r.Inbox()
		r.Send(subject, got.Subject, []byte(`{"text":"one"}`), nil)
		r.Eventually("a refusal", func() bool { return len(got.All()) > 0 })
		want := fmt.Sprintf("switchyard_requests_total{outcome=%q} %d\n", edge.ModelNotFound, i+1)
		r.Eventually(want, func() bool { return strings.Contains(r.Metrics(s), want) })
	}
}
