package delivery_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
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

// A reader and a canceller who name their tenant reach its requests alone: another tenant's is
// like one that is not there, whether it runs, waits, has ended or has not come yet.
func TestRequestsOfOtherTenants(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 2)
	s, body := r.D.Subjects, `{"text":"hi","max_tokens":5,"request_id":"mine"}`
	got := r.Inbox()
	r.Send("switchyard.ask.demo.acme.normal", got.Subject, []byte(body), nil)
	writer := r.Claim("mine")
	r.Append(writer, rig.Token(0))
	replay := []byte(`{"request_id":"mine"}`)
	refused := func(what, subject string, body []byte) {
		t.Helper()
		in := r.Inbox()
		r.Send(subject, in.Subject, body, nil)
		if c := in.End(); c.GetError().GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "is unknown; requests are kept") {
			t.Errorf("%s: %v", what, c)
		}
		if n := len(in.Chunks()); n != 1 {
			t.Errorf("%s: %d chunks", what, n)
		}
	}
	for _, tenant := range []string{"beta", "default", "acm", "ACME", "acme2"} {
		refused(tenant+" reads what runs", s.ReplayOf(tenant), replay)
		r.Send(s.CancelOf(tenant, "mine"), "", nil, nil)
		refusedForget(t, r, tenant, "mine")
	}
	own := r.Inbox()
	r.Send(s.ReplayOf("acme"), own.Subject, replay, nil)
	r.Eventually("the tenant reads its own", func() bool { return len(own.Chunks()) > 0 })
	r.Settle()
	if end := r.Terminal("mine"); end != nil {
		t.Errorf("another tenant has ended it: %v", end)
	}
	r.Send(s.CancelOf("acme", "mine"), "", nil, nil)
	if c := own.End(); c.FinishReason != "cancelled" {
		t.Errorf("the tenant's own cancellation: %v", c)
	}
	for _, tenant := range []string{"beta", "default"} {
		refused(tenant+" reads what has ended", s.ReplayOf(tenant), replay)
	}
	refused("beta reads what is not there", s.ReplayOf("beta"), []byte(`{"request_id":"none"}`))
}

// What a tenant cancels before it comes is remembered for that tenant.
func TestCancelledByTenantsBeforeAccepted(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 2)
	for _, tenant := range []string{"acme", "beta"} {
		r.Send(r.D.Subjects.CancelOf(tenant, "of-"+tenant), "", nil, nil)
	}
	r.Settle()
	for request, want := range map[string]string{"of-acme": "cancelled", "of-beta": ""} {
		got := r.Inbox()
		r.Send("switchyard.ask.demo.acme.normal", got.Subject, []byte(`{"text":"hi","max_tokens":1,"request_id":"`+request+`"}`), nil)
		if want != "" {
			if c := got.End(); c.FinishReason != want {
				t.Errorf("%s: %v", request, c)
			}
			continue
		}
		r.Append(r.Claim(request), rig.Token(0), rig.Ending("stop"))
		if c := got.End(); c.FinishReason != "stop" {
			t.Errorf("%s: %v", request, c)
		}
	}
}

func refusedForget(t *testing.T, r *rig.Rig, tenant, request string) {
	t.Helper()
	m, err := r.NC.RequestWithContext(r.Ctx(), r.D.Subjects.Forget(tenant, request), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &pb.Chunk{}
	if err := proto.Unmarshal(m.Data, c); err != nil || c.GetError().GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "is unknown") {
		t.Errorf("%s has %s forgotten: %v %v", tenant, request, c, err)
	}
}

// What a tenant has forgotten is ended, and nothing of it can be read or asked again; its id is not
// free.
func TestForget(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 2)
	for _, request := range []string{"runs", "ended"} {
		body := []byte(`{"text":"hi","max_tokens":5,"request_id":"` + request + `"}`)
		got := r.Inbox()
		r.Send("switchyard.ask.demo.acme.normal", got.Subject, body, nil)
		w := r.Claim(request)
		r.Append(w, rig.Token(0))
		if request == "ended" {
			r.Append(w, rig.Ending("stop"))
			got.End()
		}
		m, err := r.NC.RequestWithContext(r.Ctx(), r.D.Subjects.Forget("acme", request), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &pb.Chunk{}
		if err := proto.Unmarshal(m.Data, c); err != nil || c.Error != nil || c.RequestId != request {
			t.Fatalf("%s: %v %v", request, c, err)
		}
		if end := got.End(); request == "runs" && end.FinishReason != "cancelled" {
			t.Errorf("its caller is told %v", end)
		}
		for _, subject := range []string{r.D.Subjects.ReplayOf("acme"), r.D.Subjects.Replay(), "switchyard.ask.demo.acme.normal"} {
			in := r.Inbox()
			r.Send(subject, in.Subject, body, nil)
			if subject != "switchyard.ask.demo.acme.normal" {
				in = r.Inbox()
				r.Send(subject, in.Subject, []byte(`{"request_id":"`+request+`"}`), nil)
			}
			if c := in.End(); c.GetError().GetCode() != "bad_request" || !strings.Contains(c.Error.Message, "deleted") || len(in.Chunks()) != 1 {
				t.Errorf("%s by %s: %v", request, subject, in.Chunks())
			}
		}
		opened := r.Opened(request)
		if opened.Sequence != nil {
			t.Errorf("the log of %s still has what was asked: %v", request, opened.Sequence)
		}
		refusedForget(t, r, "acme", request+"-not")
		refusedForget(t, r, "acme", request)
	}
}
