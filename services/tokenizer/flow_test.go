package tokenizer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/schemas"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
)

// The subject says whose a request is, by prompt and by ask, and nothing else does.
func TestFlowOfRequests(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	for i, f := range []schemas.Flow{schemas.DefaultFlow(), {Tenant: "acme", Class: schemas.ClassHigh}, {Tenant: "acme", Class: schemas.ClassNormal}, {Tenant: "default", Class: schemas.ClassLow}} {
		for kind, subject := range map[string]string{"prompt": r.D.Subjects.PromptOf(f), "ask": r.D.Subjects.AskOf(f)} {
			id := fmt.Sprintf("%s-%d", kind, i)
			r.Send(subject, r.Inbox().Subject, []byte(`{"request_id":"`+id+`","text":"hi"}`), nil)
			if got := schemas.FlowOf(r.Opened(id)); got != f {
				t.Errorf("%s is of %v, want %v", subject, got, f)
			}
		}
	}
}

// What is no flow is refused by name, to who sent it.
func TestNoFlow(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	for subject, want := range map[string]string{
		"switchyard.prompt.demo.acme.urgent":                                          `class "urgent" is none`,
		"switchyard.ask.demo.acme.urgent":                                             `class "urgent" is none`,
		"switchyard.ask.demo.ä.high":                                                  "other characters",
		"switchyard.prompt.demo." + strings.Repeat("a", schemas.MaxTenant+1) + ".low": "65 bytes",
		"switchyard.prompt.nosuch.acme.high":                                          `no model "nosuch"`,
		"switchyard.ask.nosuch.acme.high":                                             `no model "nosuch"`,
	} {
		got := r.Inbox()
		r.Send(subject, got.Subject, []byte(`{"text":"hi"}`), nats.Header{schemas.HeaderReplyTo: {got.Subject}})
		r.Eventually("a refusal of "+subject, func() bool { return len(got.Ends()) > 0 })
		if e := got.Ends()[0].Error; !strings.Contains(e.GetMessage(), want) {
			t.Errorf("%s: %v, want %q", subject, e, want)
		}
	}
}

// A request is its tenant's: another cannot have it streamed by repeating it.
func TestRepeatByAnotherTenant(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	const body = `{"request_id":"mine","text":"hi"}`
	acme := schemas.Flow{Tenant: "acme", Class: schemas.ClassNormal}
	r.Send(r.D.Subjects.PromptOf(acme), "", []byte(body), nil)
	r.Opened("mine")
	for subject, refused := range map[string]bool{
		r.D.Subjects.Prompt(): true,
		r.D.Subjects.PromptOf(schemas.Flow{Tenant: "acme", Class: schemas.ClassHigh}): false,
	} {
		got := r.Inbox()
		r.Send(subject, "", []byte(body), nats.Header{schemas.HeaderReplyTo: {got.Subject}})
		if refused {
			if e := got.End().Error; e.GetCode() != "bad_request" {
				t.Errorf("%s: %v", subject, e)
			}
			continue
		}
		r.Append(r.Claim("mine"), rig.Token(0))
		r.Eventually("its first chunk", func() bool { return len(got.All()) > 0 })
		if len(got.Ends()) > 0 {
			t.Errorf("%s: refused with %v", subject, got.Ends()[0])
		}
	}
}
