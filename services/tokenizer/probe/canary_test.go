package probe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer"
	"github.com/switchyard/switchyard/services/tokenizer/internal/rig"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// wantLack waits until a replica is not ready, and says so.
func wantLack(r *rig.Rig, s *rig.Replica, what string) {
	r.T.Helper()
	r.Eventually(what, func() bool { err := s.Ready(); return err != nil && strings.Contains(err.Error(), what) })
}

func wantReady(r *rig.Rig, s *rig.Replica) {
	r.T.Helper()
	r.Eventually("it is ready", func() bool { return s.Ready() == nil })
}

// told is what a replica has seen itself announce to have delivered.
func told(s *rig.Replica) float64 {
	for _, m := range s.Members().Snapshot() {
		if m.Id == s.Name() {
			return m.Stats["chunks_total"]
		}
	}
	return 0
}

// TestReadyByCanary follows a pipeline without experts, that gets some, that answers,
// that fails, and that answers again.
func TestReadyByCanary(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	rejected := r.Listen(r.D.Subjects.Rejected())
	s := r.Replica(func(c *tokenizer.Config) {
		c.CanaryEvery, c.MaxQueued, c.Tenants = time.Hour, 1, map[string]tokenizer.Quota{tokenizer.EveryoneElse: {Waiting: 1, TokensPerMinute: 1, LogBytes: 1}}
	})
	wantLack(r, s, "no gate of model demo is ready: none has a plan whose functions are all warm")
	r.Join("gate")
	wantLack(r, s, "no expert host of model demo is ready")
	leave := r.Join("expert")
	wantLack(r, s, "no aggregator of model demo is ready")
	if n := testkit.Count(t, s.D.Telemetry.Metrics.Canaries("sent")); n != 0 {
		t.Errorf("%v canaries were sent though no token could flow", n)
	}
	r.Join("aggregator")
	r.Eventually("a canary", func() bool { return rig.CanaryOf(s) != "" })
	id := rig.CanaryOf(s)
	accept := r.Opened(id)
	if accept.MaxTokens != 1 || accept.PromptTokens != 1 || accept.DeadlineMs != uint32(probe.CanaryWithin.Milliseconds()) || accept.Tenant != schemas.CanaryTenant {
		t.Errorf("%v", accept)
	}
	wantLack(r, s, "request "+id+" waits since")
	wantLack(r, s, "no attention replica has begun it")
	w := r.Claim(id)
	wantLack(r, s, "its token has not come back from the layers")
	r.Append(w, rig.Token(0), rig.Ending("length"))
	wantReady(r, s)
	r.Eventually("it has told of its token", func() bool { return told(s) == 1 }) // late, it would show another

	leave()
	wantLack(r, s, "no expert host of model demo is ready")
	r.Join("expert")
	r.Eventually("another canary", func() bool { next := rig.CanaryOf(s); return next != "" && next != id })
	failing := rig.CanaryOf(s)
	r.Append(r.Claim(failing), &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{
		FinishReason: "error", Error: edge.Proto(edge.Errorf(edge.Internal, "layer 3 got no answer")),
	}}})
	wantLack(r, s, "request "+failing+": it ended as error: layer 3 got no answer")
	r.Eventually("one more", func() bool { next := rig.CanaryOf(s); return next != "" && next != failing })
	r.Append(r.Claim(rig.CanaryOf(s)), rig.Token(0), rig.Ending("length"))
	wantReady(r, s)

	uncounted(r, s)
	if n := len(rejected.All()); n > 0 {
		t.Errorf("%d canaries were rejected in public", n)
	}
}

// uncounted wants canaries to be in nothing that producers' requests are in.
func uncounted(r *rig.Rig, s *rig.Replica) {
	r.T.Helper()
	page := r.Metrics(s)
	for _, line := range []string{
		`switchyard_canaries_total{outcome="sent"} 3`, `switchyard_canaries_total{outcome="answered"} 2`, "switchyard_canary_seconds_count 2",
		`switchyard_stage_ready{stage="token"} 1`, `switchyard_stage_ready{stage="expert"} 1`,
		`switchyard_tokens_total{kind="prompt"} 0`, `switchyard_requests_total{outcome="overloaded"} 0`,
	} {
		if !strings.Contains(page, line+"\n") {
			r.T.Errorf("no %s in\n%s", line, page)
		}
	}
	if n := s.Probe.Sequences.Queued(); n > 0 {
		r.T.Errorf("%d are queued", n)
	}
}

// A request of somebody else shows that tokens flow; then none is sent.
func TestReadyByOthers(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 0)
	for _, service := range []string{"gate", "expert", "aggregator"} {
		r.Join(service)
	}
	s := r.Replica(func(c *tokenizer.Config) { c.CanaryEvery = time.Hour })
	wantLack(r, s, "no attention replica has begun it")
	r.PromptOf("acme", "a1", "")
	r.Append(r.Claim("a1"), rig.Token(0))
	wantReady(r, s)
}

// Who may publish anywhere gets no more than a token there, and no answer.
func TestCanarysTenant(t *testing.T) {
	t.Parallel()
	r := rig.New(t, 1)
	named := r.Inbox()
	r.Send(r.D.Subjects.PromptOf(schemas.CanaryFlow()), "", []byte(`{"input_ids":[1],"max_tokens":1}`), nats.Header{schemas.HeaderReplyTo: {named.Subject}})
	if e := named.End().Error; e.GetCode() != "bad_request" || !strings.Contains(e.GetMessage(), "the services' own") {
		t.Errorf("%v", e)
	}
	got := r.Inbox()
	r.Send(r.D.Subjects.AskOf(schemas.CanaryFlow()), got.Subject, []byte(`{"input_ids":[1],"max_tokens":1}`), nil)
	if e := got.End().Error; e.GetCode() != "bad_request" {
		t.Errorf("%v", e)
	}
}
