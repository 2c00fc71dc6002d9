package delivery_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// Answers of one tenant go to no inbox of another one's producers: who knows a request's
// id does not read it there, and nobody has others' inboxes written to.
func TestInboxesOfOtherTenants(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	s := r.Replica()
	theirs, acme, everybodys := r.Listen("_INBOX.producer-evil.x"), r.Listen("_INBOX.producer-acme.x"), r.Inbox()
	body := []byte(rig.AskBody)
	r.Send("switchyard.ask.demo.evil.normal", acme.Subject, []byte(`{"text":"hi","max_tokens":1}`), nil)
	r.Send("switchyard.ask.demo.acme.normal", acme.Subject, body, nil)
	r.Append(r.Claim("one"), rig.Token(0), rig.Ending("stop"))
	if c := acme.End(); c.RequestId != "one" || c.FinishReason != "stop" {
		t.Errorf("the tenant's own: %v", c)
	}
	n := len(acme.All())
	replay := []byte(`{"request_id":"one"}`)
	r.Send(r.D.Subjects.Replay(), theirs.Subject, replay, nil)
	if c := theirs.End(); c.GetError().GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "unknown") {
		t.Errorf("another tenant reads %v", c)
	}
	r.Send(r.D.Subjects.Replay(), everybodys.Subject, replay, nil)
	if c := everybodys.End(); c.FinishReason != "stop" {
		t.Errorf("at an inbox of nobody's: %v", c)
	}
	rejected := r.Listen("switchyard.rejected.demo")
	r.Send("switchyard.prompt.demo.evil.normal", "", []byte(`{"text":"hi","max_tokens":1}`), nats.Header{"Switchyard-Reply-To": {acme.Subject}})
	rejected.End()
	r.Settle()
	if len(acme.All()) != n || r.Counter(s, "refused_replies_total") < 3 {
		t.Errorf("%d messages more, %v refused", len(acme.All())-n, r.Counter(s, "refused_replies_total"))
	}
}
