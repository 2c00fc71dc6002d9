package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
)

// forger has JetStream bring to subjects what nobody may publish there, by a bucket of its own.
type forger struct {
	*rig
	bucket string
	count  int
}

func (r *rig) forger() *forger {
	r.t.Helper()
	if _, err := r.d.Conn.EnsureBucket(r.ctx(), 1, "forger", 0); err != nil {
		r.t.Fatal(err)
	}
	return &forger{rig: r, bucket: "forger"}
}

// value stores a message under a key whose last token is the request's.
func (f *forger) value(m *nats.Msg) (key string) {
	f.t.Helper()
	f.count++
	key = bus.KeySubject(f.bucket, fmt.Sprintf("%d.one", f.count))
	if _, err := f.d.Conn.JetStream().PublishMsg(f.ctx(), &nats.Msg{Subject: key, Header: m.Header, Data: m.Data}); err != nil {
		f.t.Fatal(err)
	}
	return key
}

// answered has a value come as the answer to a request.
func (f *forger) answered(request string) func(*nats.Msg) {
	return func(m *nats.Msg) {
		f.send("$JS.API.DIRECT.GET.KV_"+f.bucket+"."+f.value(m), m.Subject, []byte(request), nil)
	}
}

// delivered has a value come as a consumer's message: under its key's subject. A consumer
// delivers only where somebody subscribes to that very subject, without a wildcard.
func (f *forger) delivered(m *nats.Msg) {
	subject, key := m.Subject, bus.KeySubject(f.bucket, fmt.Sprintf("%d.one", f.count+1))
	if m = bus.Told(key, m.Data); string(m.Data) == subject {
		m.Data = schemas.SignalBody(key)
	}
	f.value(m)
	f.listen(subject)
	create := fmt.Sprintf(`{"stream_name":"KV_%s","config":{"name":"c%d","deliver_subject":%q,"deliver_policy":"last","filter_subject":%q,"ack_policy":"none"}}`,
		f.bucket, f.count, subject, key)
	made, err := f.nc.RequestWithContext(f.ctx(), fmt.Sprintf("$JS.API.CONSUMER.CREATE.KV_%s.c%d.%s", f.bucket, f.count, key), []byte(create))
	if err != nil {
		f.t.Fatal(err)
	}
	if strings.Contains(string(made.Data), `"error"`) {
		f.t.Fatalf("%s", made.Data)
	}
}

// acknowledged has the server acknowledge something.
func (f *forger) acknowledged(m *nats.Msg) {
	f.send(bus.KeySubject(f.bucket, "key"), m.Subject, nil, nil)
}

// Who may write to a bucket can have JetStream say in a tokenizer's name what tokenizers
// tell each other. Nothing of it is believed, and each is counted.
func TestForgedByJetStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s, f := r.replica(), r.forger()
	w, got, other := r.running(1), r.inbox(), r.inbox()
	r.replay(got, 0)
	r.eventually("a chunk", func() bool { return len(got.chunks()) == 1 })
	s.lonely.note("one", time.Hour, func(context.Context) {})
	s.streams.mu.Lock()
	stream := s.streams.last
	s.streams.mu.Unlock()
	const turn = 1 << 61
	handed, err := json.Marshal(handed{Subject: other.subject, Turn: turn})
	if err != nil {
		t.Fatal(err)
	}
	signal := func(subject string) *nats.Msg { return bus.Told(subject, schemas.SignalBody(subject)) }
	n := s.d.Subjects
	for _, m := range []*nats.Msg{
		signal(n.Interest(interestAsked, "one")),
		signal(n.Interest(interestHeld, "one")),
		signal(n.Stop("one")),
		bus.Told(n.Interest(interestTaken, "one"), fmt.Append(nil, turn, " tokenizer-other ", got.subject)),
		bus.Told(n.Interest(interestHanded, "one"), handed),
		bus.Told(n.Holdings("tokenizer", "one"), nil),
		{Subject: n.Probe(s.id, "one", stream), Header: nats.Header{"Status": {"503"}}},
	} {
		for name, forge := range map[string]func(*nats.Msg){
			"answered": f.answered(""), "answered without headers": f.answered(`{"no_hdr":true}`),
			"delivered": f.delivered, "acknowledged": f.acknowledged,
		} {
			before := testkit.Count(t, s.metrics.Refused)
			forge(m)
			r.eventually(name+" on "+m.Subject+" is counted", func() bool { return testkit.Count(t, s.metrics.Refused) > before })
		}
	}
	if n := s.streams.count(); n != 1 {
		t.Errorf("%d streams, want the one", n)
	}
	if s.lonely.note("one", time.Hour, func(context.Context) {}) {
		t.Error("a caller is said to wait")
	}
	r.append(w, token(1), ending("stop"))
	if end := got.end(); end.FinishReason != "stop" || len(other.all()) > 0 {
		t.Errorf("ended by %q; another reader got %d chunks", end.FinishReason, len(other.all()))
	}
}

// What is not as tokenizers write it is refused, and counted.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	n := s.d.Subjects
	for subject, bodies := range map[string][]string{
		n.Interest(interestAsked, "one"):  {"", n.Interest(interestHeld, "one"), n.Interest(interestAsked, "one") + " "},
		n.Interest(interestHeld, "one"):   {"", "{}"},
		n.Stop("one"):                     {"", "{}"},
		n.Interest(interestTaken, "one"):  {"", "1 tokenizer-other", "01 tokenizer-other inbox", "+1 tokenizer-other inbox", "1 tokenizer.other inbox", "1 tokenizer-other in box"},
		n.Interest(interestHanded, "one"): {"", `{"subject":"_INBOX.x","turn":1}`, `{"subject":"_INBOX.x","encoding":0,"from":0,"turn":1,"seq":1}`},
		n.Holdings("tokenizer", "one"):    {"\xff"},
	} {
		for _, body := range bodies {
			before := testkit.Count(t, s.metrics.Refused)
			r.tell(subject, []byte(body))
			r.eventually(fmt.Sprintf("%q on %s is counted", body, subject), func() bool { return testkit.Count(t, s.metrics.Refused) > before })
		}
	}
}
