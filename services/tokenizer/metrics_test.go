package tokenizer

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/pkg/request/edge"
)

// metrics is what a replica's page of metrics says.
func (r *rig) metrics(s *Service) string {
	page := httptest.NewRecorder()
	s.d.Telemetry.Handler().ServeHTTP(page, httptest.NewRequestWithContext(r.t.Context(), "GET", "/metrics", nil))
	return page.Body.String()
}

// Depths follow the queues, also when no further prompt comes, and are not
// there when NATS does not tell them.
func TestQueueDepth(t *testing.T) {
	r := newRig(t, 0)
	s := r.replica()
	depth := func(kind string, n int) bool {
		return strings.Contains(r.metrics(s), fmt.Sprintf("switchyard_queue_depth{stream=%q} %d\n", kind, n))
	}
	for i := range 3 {
		r.send(r.d.Subjects.Prompt(), "", fmt.Appendf(nil, `{"text":"one","request_id":"r%d"}`, i), nil)
	}
	r.eventually("three sequences wait", func() bool { return depth("sequence", 3) && depth("prompt", 0) })
	r.eventually("how full the token log is", func() bool { // unless the last look at it is too old
		return strings.Contains(r.metrics(s), `switchyard_stream_fill_ratio{stream="token"} `)
	})
	stream, err := r.d.Conn.JetStream().Stream(r.ctx(), r.d.Streams.Sequences().Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(r.ctx()); err != nil {
		t.Fatal(err)
	}
	r.eventually("none waits", func() bool { return depth("sequence", 0) })
	r.srv.Shutdown()
	r.eventually("nobody knows", func() bool { return !strings.Contains(r.metrics(s), "switchyard_queue_depth{") })
}

// Requests for models that nobody serves are counted, whichever way they come.
func TestModelNotFoundIsCounted(t *testing.T) {
	r := newRig(t, 0)
	s := r.replica()
	for i, subject := range []string{"switchyard.ask.nobody", "switchyard.prompt.nobody"} {
		got := r.inbox()
		r.send(subject, got.subject, []byte(`{"text":"one"}`), nil)
		r.eventually("a refusal", func() bool { return len(got.all()) > 0 })
		want := fmt.Sprintf("switchyard_requests_total{outcome=%q} %d\n", edge.ModelNotFound, i+1)
		r.eventually(want, func() bool { return strings.Contains(r.metrics(s), want) })
	}
}
