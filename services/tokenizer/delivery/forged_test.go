package delivery_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// forger has JetStream bring to subjects what nobody may publish there, by a bucket of its own.
type forger struct {
	*rig.Rig
	bucket string
	count  int
}

func newForger(r *rig.Rig) *forger {
	r.T.Helper()
	if _, err := r.D.Conn.EnsureBucket(r.Ctx(), 1, "forger", 0); err != nil {
		r.T.Fatal(err)
	}
	return &forger{Rig: r, bucket: "forger"}
}

// value stores a message under a key whose last token is the request's.
func (f *forger) value(m *nats.Msg) (key string) {
	f.T.Helper()
	f.count++
	key = bus.KeySubject(f.bucket, fmt.Sprintf("%d.one", f.count))
	if _, err := f.D.Conn.JetStream().PublishMsg(f.Ctx(), &nats.Msg{Subject: key, Header: m.Header, Data: m.Data}); err != nil {
		f.T.Fatal(err)
	}
	return key
}

// answered has a value come as the answer to a request.
func (f *forger) answered(request string) func(*nats.Msg) {
	return func(m *nats.Msg) {
		f.Send("$JS.API.DIRECT.GET.KV_"+f.bucket+"."+f.value(m), m.Subject, []byte(request), nil)
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
	f.Listen(subject)
	create := fmt.Sprintf(`{"stream_name":"KV_%s","config":{"name":"c%d","deliver_subject":%q,"deliver_policy":"last","filter_subject":%q,"ack_policy":"none"}}`,
		f.bucket, f.count, subject, key)
	made, err := f.NC.RequestWithContext(f.Ctx(), fmt.Sprintf("$JS.API.CONSUMER.CREATE.KV_%s.c%d.%s", f.bucket, f.count, key), []byte(create))
	if err != nil {
		f.T.Fatal(err)
	}
	if strings.Contains(string(made.Data), `"error"`) {
		f.T.Fatalf("%s", made.Data)
	}
}

// acknowledged has the server acknowledge something.
func (f *forger) acknowledged(m *nats.Msg) {
	f.Send(bus.KeySubject(f.bucket, "key"), m.Subject, nil, nil)
}

// Who may write to a bucket can have JetStream say in a tokenizer's name what tokenizers
// tell each other. Nothing of it is believed, and each is counted.
func TestForgedByJetStream(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s, f := r.Replica(), newForger(r)
	w, got, other := beginRunning(r, 1), r.Inbox(), r.Inbox()
	askReplay(r, got, 0)
	r.Eventually("a chunk", func() bool { return len(got.Chunks()) == 1 })
	s.Delivery.Replays.NoteDeserted("one")
	stream := s.Delivery.Replays.Newest()
	const turn = 1 << 61
	handed, err := json.Marshal(delivery.Handed{Subject: other.Subject, Turn: turn})
	if err != nil {
		t.Fatal(err)
	}
	signal := func(subject string) *nats.Msg { return bus.Told(subject, schemas.SignalBody(subject)) }
	n := s.D.Subjects
	for _, m := range []*nats.Msg{
		signal(n.Interest(delivery.InterestAsked, "one")),
		signal(n.Interest(delivery.InterestHeld, "one")),
		signal(n.Stop("one")),
		bus.Told(n.Interest(delivery.InterestTaken, "one"), fmt.Append(nil, turn, " tokenizer-other ", got.Subject)),
		bus.Told(n.Interest(delivery.InterestHanded, "one"), handed),
		bus.Told(n.Holdings("tokenizer", "one"), nil),
		{Subject: n.Probe(s.Name(), "one", stream), Header: nats.Header{"Status": {"503"}}},
	} {
		for name, forge := range map[string]func(*nats.Msg){
			"answered": f.answered(""), "answered without headers": f.answered(`{"no_hdr":true}`),
			"delivered": f.delivered, "acknowledged": f.acknowledged,
		} {
			before := testkit.Count(t, s.D.Telemetry.Metrics.Refused)
			forge(m)
			r.Eventually(name+" on "+m.Subject+" is counted", func() bool { return testkit.Count(t, s.D.Telemetry.Metrics.Refused) > before })
		}
	}
	if n := s.Delivery.Replays.Open(); n != 1 {
		t.Errorf("%d streams, want the one", n)
	}
	if s.Delivery.Replays.NoteDeserted("one") {
		t.Error("a caller is said to wait")
	}
	r.Append(w, rig.Token(1), rig.Ending("stop"))
	if end := got.End(); end.FinishReason != "stop" || len(other.All()) > 0 {
		t.Errorf("ended by %q; another reader got %d chunks", end.FinishReason, len(other.All()))
	}
}

// What is not as tokenizers write it is refused, and counted.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	n := s.D.Subjects
	for subject, bodies := range map[string][]string{
		n.Interest(delivery.InterestAsked, "one"):  {"", n.Interest(delivery.InterestHeld, "one"), n.Interest(delivery.InterestAsked, "one") + " "},
		n.Interest(delivery.InterestHeld, "one"):   {"", "{}"},
		n.Stop("one"):                              {"", "{}"},
		n.Interest(delivery.InterestTaken, "one"):  {"", "1 tokenizer-other", "01 tokenizer-other inbox", "+1 tokenizer-other inbox", "1 tokenizer.other inbox", "1 tokenizer-other in box"},
		n.Interest(delivery.InterestHanded, "one"): {"", `{"subject":"_INBOX.x","turn":1}`, `{"subject":"_INBOX.x","encoding":0,"from":0,"turn":1,"seq":1}`},
		n.Holdings("tokenizer", "one"):             {"\xff"},
	} {
		for _, body := range bodies {
			before := testkit.Count(t, s.D.Telemetry.Metrics.Refused)
			tell(r, subject, []byte(body))
			r.Eventually(fmt.Sprintf("%q on %s is counted", body, subject), func() bool { return testkit.Count(t, s.D.Telemetry.Metrics.Refused) > before })
		}
	}
}
