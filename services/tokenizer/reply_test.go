package tokenizer

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

func fromJSON(data []byte, m proto.Message) error { return protojson.Unmarshal(data, m) }

// vault is what producers must not reach: a bucket and a stream.
type vault struct {
	r  *rig
	kv jetstream.KeyValue
	js jetstream.JetStream
}

func newVault(r *rig) *vault {
	r.t.Helper()
	v := &vault{r: r, js: r.d.Conn.JetStream()}
	var err error
	if v.kv, err = v.js.CreateKeyValue(r.ctx(), jetstream.KeyValueConfig{Bucket: "vault"}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := v.kv.Put(r.ctx(), "key", []byte("untouched")); err != nil {
		r.t.Fatal(err)
	}
	if _, err := v.js.CreateStream(r.ctx(), jetstream.StreamConfig{Name: "SAFE", Subjects: []string{"safe.>"}}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := v.js.Publish(r.ctx(), "safe.1", []byte("x")); err != nil {
		r.t.Fatal(err)
	}
	return v
}

// check finds what a producer did.
func (v *vault) check() {
	v.r.t.Helper()
	if e, err := v.kv.Get(v.r.ctx(), "key"); err != nil || string(e.Value()) != "untouched" {
		v.r.t.Errorf("the key is %v, error %v", e, err)
	}
	s, err := v.js.Stream(v.r.ctx(), "SAFE")
	if err != nil {
		v.r.t.Fatalf("the stream: %v", err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		v.r.t.Errorf("the stream has %d messages", n)
	}
	if _, err := v.r.log.Last(v.r.ctx(), "victim"); err == nil {
		v.r.t.Errorf("a producer wrote a token log")
	}
}

// Whoever may publish to a service's subject gets it to publish nowhere that
// is not an inbox, whatever the service answers.
func TestForbiddenReplySubjects(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s, v := r.replica(), newVault(r)
	text, json := []byte("hi"), []byte(`{"text":"hi","request_id":"known","max_tokens":4}`)
	seen := r.inbox()
	r.send(r.d.Subjects.Ask(), seen.subject, json, nil)
	r.append(r.claim("known"), token(0), ending("stop"))
	seen.end()
	targets := []string{
		"$KV.vault.key", "$JS.API.STREAM.DELETE.SAFE", "$JS.API.STREAM.PURGE.SAFE", "$JS.API.STREAM.DELETE.KV_vault",
		"safe.2", r.d.Subjects.Token("victim"), r.d.Subjects.Cancel("known"),
	}
	asks := map[string]struct {
		subject string
		body    []byte
	}{
		"ask": {r.d.Subjects.Ask(), text}, "bad ask": {r.d.Subjects.Ask(), []byte("{")},
		"unknown model": {"switchyard.ask.nosuch", text},
		"replay":        {r.d.Subjects.Replay(), []byte(`{"request_id":"known"}`)}, "bad replay": {r.d.Subjects.Replay(), text},
		"unknown replay": {r.d.Subjects.Replay(), []byte(`{"request_id":"nope"}`)},
		"ping":           {"$SRV.PING", nil}, "info": {"$SRV.INFO.switchyard-ask", nil}, "stats": {"$SRV.STATS", nil},
		"prompt of no model": {"switchyard.prompt.nosuch", json},
	}
	for name, ask := range asks {
		for _, target := range targets {
			if err := r.nc.PublishMsg(&nats.Msg{Subject: ask.subject, Reply: target, Data: ask.body}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	r.settle()
	r.eventually("all unusable reply subjects are counted", func() bool {
		return r.counter(s, "refused_replies_total") >= float64(len(asks)*len(targets))
	})
	v.check()
}

// A prompt names its reply subject in a header or in its body; neither is
// published to when it is not the producer's, refusals included.
func TestForbiddenReplyTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	v := newVault(r)
	for _, subject := range []string{"switchyard.prompt.demo", "switchyard.prompt.nosuch"} {
		rejected := r.listen("switchyard.rejected." + subject[len("switchyard.prompt."):])
		for _, target := range []string{
			"$KV.vault.key", "$JS.API.STREAM.PURGE.SAFE", "$O.bucket.M.x", "$SYS.REQ.SERVER.PING", "_GR_.abcdef.abcdef.safe.2", "_R_.x", "_nats.x",
			r.d.Subjects.Token("victim"), "switchyard.sequence.other", "switchyard", ".a", "a.", "a..b", "a b", "a.*", ">",
		} {
			for _, body := range []string{`{"text":"hi","max_tokens":1}`, `{`, "text", ""} {
				r.send(subject, "", []byte(body), nats.Header{"Switchyard-Reply-To": {target}})
			}
			p, _ := protojson.Marshal(&pb.Prompt{Text: "hi", ReplyTo: target})
			r.send(subject, "", p, nil)
		}
		r.eventually("refusals of "+subject, func() bool { return len(rejected.ends()) >= 16*3 })
	}
	r.settle()
	v.check()
}

// settle waits until the service has handled what was sent before: it answers
// an ask of each kind in order of arrival.
func (r *rig) settle() {
	r.t.Helper()
	for _, subject := range []string{r.d.Subjects.Replay(), "switchyard.ask.nosuch2", "switchyard.prompt.nosuch2", "switchyard.ask.demo"} {
		last := r.inbox()
		r.send(subject, last.subject, []byte("{"), nil)
		r.eventually("the answer to the last message of "+subject, func() bool { return len(last.all()) > 0 })
	}
}

// counter is the value of one of a replica's counters.
func (r *rig) counter(s *Service, suffix string) float64 {
	r.t.Helper()
	families, err := s.d.Telemetry.Registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasSuffix(f.GetName(), suffix) {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	r.t.Fatalf("there is no metric %s", suffix)
	return 0
}
