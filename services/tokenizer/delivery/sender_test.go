package delivery_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// vault is what producers must not reach: a bucket and a stream.
type vault struct {
	r  *rig.Rig
	kv jetstream.KeyValue
	js jetstream.JetStream
}

func newVault(r *rig.Rig) *vault {
	r.T.Helper()
	v := &vault{r: r, js: r.D.Conn.JetStream()}
	var err error
	if v.kv, err = v.js.CreateKeyValue(r.Ctx(), jetstream.KeyValueConfig{Bucket: "vault"}); err != nil {
		r.T.Fatal(err)
	}
	if _, err := v.kv.Put(r.Ctx(), "key", []byte("untouched")); err != nil {
		r.T.Fatal(err)
	}
	if _, err := v.js.CreateStream(r.Ctx(), jetstream.StreamConfig{Name: "SAFE", Subjects: []string{"safe.>"}}); err != nil {
		r.T.Fatal(err)
	}
	if _, err := v.js.Publish(r.Ctx(), "safe.1", []byte("x")); err != nil {
		r.T.Fatal(err)
	}
	return v
}

// check finds what a producer did.
func (v *vault) check() {
	v.r.T.Helper()
	if e, err := v.kv.Get(v.r.Ctx(), "key"); err != nil || string(e.Value()) != "untouched" {
		v.r.T.Errorf("the key is %v, error %v", e, err)
	}
	s, err := v.js.Stream(v.r.Ctx(), "SAFE")
	if err != nil {
		v.r.T.Fatalf("the stream: %v", err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1 {
		v.r.T.Errorf("the stream has %d messages", n)
	}
	if _, err := v.r.Log.Last(v.r.Ctx(), "victim"); err == nil {
		v.r.T.Errorf("a producer wrote a token log")
	}
}

// Whoever may publish to a service's subject gets it to publish nowhere that
// is not an inbox, whatever the service answers.
func TestForbiddenReplySubjects(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s, v := r.Replica(), newVault(r)
	text, json := []byte("hi"), []byte(`{"text":"hi","request_id":"known","max_tokens":4}`)
	seen := r.Inbox()
	r.Send(r.D.Subjects.Ask(), seen.Subject, json, nil)
	r.Append(r.Claim("known"), rig.Token(0), rig.Ending("stop"))
	seen.End()
	targets := []string{
		"$KV.vault.key", "$JS.API.STREAM.DELETE.SAFE", "$JS.API.STREAM.PURGE.SAFE", "$JS.API.STREAM.DELETE.KV_vault",
		"safe.2", r.D.Subjects.Token("victim"), r.D.Subjects.Cancel("known"),
	}
	asks := map[string]struct {
		subject string
		body    []byte
	}{
		"ask": {r.D.Subjects.Ask(), text}, "bad ask": {r.D.Subjects.Ask(), []byte("{")},
		"unknown model": {"switchyard.ask.nosuch", text},
		"replay":        {r.D.Subjects.Replay(), []byte(`{"request_id":"known"}`)}, "bad replay": {r.D.Subjects.Replay(), text},
		"unknown replay": {r.D.Subjects.Replay(), []byte(`{"request_id":"nope"}`)},
		"ping":           {"$SRV.PING", nil}, "info": {"$SRV.INFO.switchyard-ask", nil}, "stats": {"$SRV.STATS", nil},
		"prompt of no model": {"switchyard.prompt.nosuch", json},
	}
	for name, ask := range asks {
		for _, target := range targets {
			if err := r.NC.PublishMsg(&nats.Msg{Subject: ask.subject, Reply: target, Data: ask.body}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	r.Settle()
	r.Eventually("all unusable reply subjects are counted", func() bool {
		return r.Counter(s, "refused_replies_total") >= float64(len(asks)*len(targets))
	})
	v.check()
}

// A prompt names its reply subject in a header or in its body; neither is
// published to when it is not the producer's, refusals included.
func TestForbiddenReplyTo(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	v := newVault(r)
	for _, subject := range []string{"switchyard.prompt.demo", "switchyard.prompt.nosuch"} {
		rejected := r.Listen("switchyard.rejected." + subject[len("switchyard.prompt."):])
		for _, target := range []string{
			"$KV.vault.key", "$JS.API.STREAM.PURGE.SAFE", "$O.bucket.M.x", "$SYS.REQ.SERVER.PING", "_GR_.abcdef.abcdef.safe.2", "_R_.x", "_nats.x",
			r.D.Subjects.Token("victim"), "switchyard.sequence.other", "switchyard", ".a", "a.", "a..b", "a b", "a.*", ">",
		} {
			for _, body := range []string{`{"text":"hi","max_tokens":1}`, `{`, "text", ""} {
				r.Send(subject, "", []byte(body), nats.Header{"Switchyard-Reply-To": {target}})
			}
			p, _ := protojson.Marshal(&pb.Prompt{Text: "hi", ReplyTo: target})
			r.Send(subject, "", p, nil)
		}
		r.Eventually("refusals of "+subject, func() bool { return len(rejected.Ends()) >= 16*3 })
	}
	r.Settle()
	v.check()
}
