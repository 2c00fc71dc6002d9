package tokenizer

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// Answers of one tenant go to no inbox of another one's producers: who knows a request's
// id does not read it there, and nobody has others' inboxes written to.
func TestInboxesOfOtherTenants(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	s := r.replica()
	theirs, acme, everybodys := r.listen("_INBOX.producer-evil.x"), r.listen("_INBOX.producer-acme.x"), r.inbox()
	body := []byte(askBody)
	r.send("switchyard.ask.demo.evil.normal", acme.subject, []byte(`{"text":"hi","max_tokens":1}`), nil)
	r.send("switchyard.ask.demo.acme.normal", acme.subject, body, nil)
	r.append(r.claim("one"), token(0), ending("stop"))
	if c := acme.end(); c.RequestId != "one" || c.FinishReason != "stop" {
		t.Errorf("the tenant's own: %v", c)
	}
	n := len(acme.all())
	replay := []byte(`{"request_id":"one"}`)
	r.send(r.d.Subjects.Replay(), theirs.subject, replay, nil)
	if c := theirs.end(); c.GetError().GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "unknown") {
		t.Errorf("another tenant reads %v", c)
	}
	r.send(r.d.Subjects.Replay(), everybodys.subject, replay, nil)
	if c := everybodys.end(); c.FinishReason != "stop" {
		t.Errorf("at an inbox of nobody's: %v", c)
	}
	rejected := r.listen("switchyard.rejected.demo")
	r.send("switchyard.prompt.demo.evil.normal", "", []byte(`{"text":"hi","max_tokens":1}`), nats.Header{"Switchyard-Reply-To": {acme.subject}})
	rejected.end()
	r.settle()
	if len(acme.all()) != n || r.counter(s, "refused_replies_total") < 3 {
		t.Errorf("%d messages more, %v refused", len(acme.all())-n, r.counter(s, "refused_replies_total"))
	}
}
