package bus

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/schemas"
)

// toldSubject is what is listened to, and forged.
const toldSubject = "told.a"

// forger has a server bring to a subject what its user may not publish there.
type forger struct {
	*rig
	js jetstream.JetStream
}

// value stores a forgery as a key's value, with the header that Tell would give it there.
func (f *forger) value(subject string) {
	f.t.Helper()
	m := Told(subject, []byte("forged"))
	m.Subject = KeySubject("own", "key")
	if _, err := f.js.PublishMsg(f.ctx(), m); err != nil {
		f.t.Fatal(err)
	}
}

// asks sends a request whose answer goes to the subject.
func (f *forger) asks(subject, request string) {
	f.t.Helper()
	if err := f.conn.nc.PublishRequest(subject, toldSubject, []byte(request)); err != nil {
		f.t.Fatal(err)
	}
}

// consumer has the server deliver the value.
func (f *forger) consumer(c jetstream.ConsumerConfig) {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"stream_name": "KV_own", "config": c})
	if err == nil {
		_, err = f.conn.nc.RequestWithContext(f.ctx(), "$JS.API.CONSUMER.CREATE.KV_own."+c.Name, body)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// Whatever JetStream can be made to say on a subject is refused, and counted.
func TestForged(t *testing.T) {
	const directGet = "$JS.API.DIRECT.GET.KV_own."
	for _, c := range []struct {
		name string
		does func(f *forger)
	}{
		{"acknowledgement", func(f *forger) { f.asks(KeySubject("own", "key"), "") }},
		{"value", func(f *forger) { f.value(toldSubject); f.asks(directGet+KeySubject("own", "key"), "") }},
		{"value without headers", func(f *forger) { f.value(toldSubject); f.asks(directGet+KeySubject("own", "key"), `{"no_hdr":true}`) }},
		{"value in JSON", func(f *forger) {
			f.value(toldSubject)
			f.asks("$JS.API.STREAM.MSG.GET.KV_own", `{"last_by_subj":"$KV.own.key"}`)
		}},
		{"no value", func(f *forger) { f.asks(directGet+KeySubject("own", "none"), "") }},
		{"push", func(f *forger) {
			f.value(KeySubject("own", "key"))
			f.consumer(jetstream.ConsumerConfig{Name: "push", DeliverSubject: toldSubject, AckPolicy: jetstream.AckNonePolicy})
		}},
		{"pull", func(f *forger) {
			f.value(KeySubject("own", "key"))
			f.consumer(jetstream.ConsumerConfig{Name: "pull", AckPolicy: jetstream.AckNonePolicy})
			f.asks("$JS.API.CONSUMER.MSG.NEXT.KV_own.pull", "1")
		}},
		{"published again", func(f *forger) {
			_, err := f.js.CreateStream(f.ctx(), jetstream.StreamConfig{
				Name: "again", Subjects: []string{"again"}, RePublish: &jetstream.RePublish{Source: "again", Destination: toldSubject},
			})
			m := Told(toldSubject, []byte("forged"))
			m.Subject = "again"
			if err == nil {
				_, err = f.js.PublishMsg(f.ctx(), m)
			}
			if err != nil {
				f.t.Fatal(err)
			}
		}},
		{"nobody listens", func(f *forger) { f.asks("nobody", "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := &forger{rig: newRig(t)}
			f.js = f.conn.js
			if _, err := f.conn.EnsureBucket(f.ctx(), 1, "own", 0); err != nil {
				t.Fatal(err)
			}
			heard := make(chan *nats.Msg, 9)
			sub, err := f.conn.Hear(toldSubject, "", func(m *nats.Msg) { heard <- m })
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = sub.Unsubscribe() }()
			c.does(f)
			testkit.Eventually(t, "it is refused", func() bool { return f.obs.refused.Load() > 0 || len(heard) > 0 })
			if err := f.conn.Tell(toldSubject, []byte("told")); err != nil {
				t.Fatal(err)
			}
			if m := <-heard; string(m.Data) != "told" {
				t.Errorf("%q was believed, with headers %v and reply subject %q", m.Data, m.Header, m.Reply)
			}
		})
	}
}

func TestCheckTold(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		header      nats.Header
		good        bool
	}{
		{"told", "", nats.Header{schemas.HeaderTold: {"a"}}, true},
		{"without headers", "", nil, false},
		{"elsewhere", "", nats.Header{schemas.HeaderTold: {"b"}}, false},
		{"twice", "", nats.Header{schemas.HeaderTold: {"a", "a"}}, false},
		{"beside another", "", nats.Header{schemas.HeaderTold: {"a"}, "x": {"y"}}, false},
		{"with a reply subject", "b", nats.Header{schemas.HeaderTold: {"a"}}, false},
	} {
		if err := checkTold(&nats.Msg{Subject: "a", Reply: c.reply, Header: c.header}); (err == nil) != c.good {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
