package attention

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit/testdeployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// An answer that is stopped looks complete: who can have JetStream say so in a tokenizer's
// name, by a value that it reads from a bucket, stops none.
func TestForgedStop(t *testing.T) {
	t.Parallel()
	d := testdeployment.Open(t)
	s := New(d, Config{MaxSequences: 1})
	ended := make(chan string, 2)
	s.signals = signals{refused: d.Telemetry.Metrics.Refused, end: func(request, reason string) { ended <- request + " by " + reason }}
	came := make(chan *nats.Msg, 2)
	sub, err := d.Conn.Subscribe(d.Subjects.AnyStop(), "", func(m *nats.Msg) { came <- m })
	if err == nil {
		err = s.hear()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, sub := range append(s.subs, sub) {
		defer func() { _ = sub.Unsubscribe() }()
	}
	const key = "planner"
	stop := d.Subjects.Stop("forged")
	if _, err := d.Leases.Put(t.Context(), key, schemas.SignalBody(stop)); err != nil {
		t.Fatal(err)
	}
	bucket := d.Leases.Bucket()
	get := "$JS.API.DIRECT.GET." + schemas.BucketStream(bucket) + "." + bus.KeySubject(bucket, key)
	if err := d.Conn.NATS().PublishRequest(get, stop, []byte(`{"no_hdr":true}`)); err != nil {
		t.Fatal(err)
	}
	if m := <-came; string(m.Data) != stop || len(m.Header) > 0 || m.Reply != "" {
		t.Fatalf("%q came, with headers %v and reply subject %q", m.Data, m.Header, m.Reply)
	}
	told := d.Subjects.Stop("true")
	if err := d.Conn.Tell(told, schemas.SignalBody(told)); err != nil {
		t.Fatal(err)
	}
	if request := <-ended; request != "true by stop" {
		t.Errorf("request %s ends", request)
	}
}
