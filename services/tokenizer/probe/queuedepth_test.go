package probe_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/edge"
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
