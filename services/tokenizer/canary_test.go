package tokenizer

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/probe"
)

// join has a service among the members until leave is called.
func (r *rig) join(service string) (leave func()) {
	p := r.d.NewPresence(service+"-1", service)
	p.SetReady(true)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Announce(ctx) }()
	leave = func() { cancel(); <-done }
	r.t.Cleanup(leave)
	return leave
}

// lacks waits until a replica is not ready, and says so.
func (r *rig) lacks(s *Service, what string) {
	r.t.Helper()
	r.eventually(what, func() bool { err := s.Ready(); return err != nil && strings.Contains(err.Error(), what) })
}

func (r *rig) ready(s *Service) {
	r.t.Helper()
	r.eventually("it is ready", func() bool { return s.Ready() == nil })
}

// canary is the one that a replica waits for, as it says itself.
func canary(s *Service) (id string) {
	if err := s.Ready(); err != nil {
		if found := canaryID.FindStringSubmatch(err.Error()); found != nil {
			return found[1]
		}
	}
	return ""
}

var canaryID = regexp.MustCompile(`request (canary-\S+) waits since`)

// told is what a replica has seen itself announce to have delivered.
func told(s *Service) float64 {
	for _, m := range s.view.Snapshot() {
		if m.Id == s.id {
			return m.Stats["chunks_total"]
		}
	}
	return 0
}

// TestReadyByCanary follows a pipeline without experts, that gets some, that answers,
// that fails, and that answers again.
func TestReadyByCanary(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	rejected := r.listen(r.d.Subjects.Rejected())
	s := r.replica(func(c *Config) {
		c.CanaryEvery, c.MaxQueued, c.Tenants = time.Hour, 1, map[string]Quota{EveryoneElse: {Waiting: 1, TokensPerMinute: 1, LogBytes: 1}}
	})
	r.lacks(s, "no gate of model demo is ready: none has a plan whose functions are all warm")
	r.join("gate")
	r.lacks(s, "no expert host of model demo is ready")
	leave := r.join("expert")
	r.lacks(s, "no aggregator of model demo is ready")
	if n := testkit.Count(t, s.metrics.Canaries("sent")); n != 0 {
		t.Errorf("%v canaries were sent though no token could flow", n)
	}
	r.join("aggregator")
	r.eventually("a canary", func() bool { return canary(s) != "" })
	id := canary(s)
	accept := r.opened(id)
	if accept.MaxTokens != 1 || accept.PromptTokens != 1 || accept.DeadlineMs != uint32(probe.CanaryWithin.Milliseconds()) || accept.Tenant != schemas.CanaryTenant {
		t.Errorf("%v", accept)
	}
	r.lacks(s, "request "+id+" waits since")
	r.lacks(s, "no attention replica has begun it")
	w := r.claim(id)
	r.lacks(s, "its token has not come back from the layers")
	r.append(w, token(0), ending("length"))
	r.ready(s)
	r.eventually("it has told of its token", func() bool { return told(s) == 1 }) // late, it would show another

	leave()
	r.lacks(s, "no expert host of model demo is ready")
	r.join("expert")
	r.eventually("another canary", func() bool { next := canary(s); return next != "" && next != id })
	failing := canary(s)
	r.append(r.claim(failing), &pb.Record{Kind: &pb.Record_Terminal{Terminal: &pb.Terminal{
		FinishReason: "error", Error: edge.Proto(edge.Errorf(edge.Internal, "layer 3 got no answer")),
	}}})
	r.lacks(s, "request "+failing+": it ended as error: layer 3 got no answer")
	r.eventually("one more", func() bool { next := canary(s); return next != "" && next != failing })
	r.append(r.claim(canary(s)), token(0), ending("length"))
	r.ready(s)

	r.uncounted(s)
	if n := len(rejected.all()); n > 0 {
		t.Errorf("%d canaries were rejected in public", n)
	}
}

// uncounted wants canaries to be in nothing that producers' requests are in.
func (r *rig) uncounted(s *Service) {
	r.t.Helper()
	page := r.metrics(s)
	for _, line := range []string{
		`switchyard_canaries_total{outcome="sent"} 3`, `switchyard_canaries_total{outcome="answered"} 2`, "switchyard_canary_seconds_count 2",
		`switchyard_stage_ready{stage="token"} 1`, `switchyard_stage_ready{stage="expert"} 1`,
		`switchyard_tokens_total{kind="prompt"} 0`, `switchyard_requests_total{outcome="overloaded"} 0`,
	} {
		if !strings.Contains(page, line+"\n") {
			r.t.Errorf("no %s in\n%s", line, page)
		}
	}
	if s.probe.Sequences.Queued() > 0 || s.admission.Waiting() > 0 {
		r.t.Errorf("%d and %d wait", s.probe.Sequences.Queued(), s.admission.Waiting())
	}
}

// A request of somebody else shows that tokens flow; then none is sent.
func TestReadyByOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	for _, service := range []string{"gate", "expert", "aggregator"} {
		r.join(service)
	}
	s := r.replica(func(c *Config) { c.CanaryEvery = time.Hour })
	r.lacks(s, "no attention replica has begun it")
	r.promptOf("acme", "a1", "")
	r.append(r.claim("a1"), token(0))
	r.ready(s)
}

// Who may publish anywhere gets no more than a token there, and no answer.
func TestCanarysTenant(t *testing.T) {
	t.Parallel()
	r := newRig(t, 1)
	named := r.inbox()
	r.send(r.d.Subjects.PromptOf(schemas.CanaryFlow()), "", []byte(`{"input_ids":[1],"max_tokens":1}`), nats.Header{schemas.HeaderReplyTo: {named.subject}})
	if e := named.end().Error; e.GetCode() != "bad_request" || !strings.Contains(e.GetMessage(), "the services' own") {
		t.Errorf("%v", e)
	}
	got := r.inbox()
	r.send(r.d.Subjects.AskOf(schemas.CanaryFlow()), got.subject, []byte(`{"input_ids":[1],"max_tokens":1}`), nil)
	if e := got.end().Error; e.GetCode() != "bad_request" {
		t.Errorf("%v", e)
	}
}

func TestCheckFlow(t *testing.T) {
	for name, change := range map[string]func(*incoming){
		"":            func(*incoming) {},
		"many tokens": func(in *incoming) { in.prompt.MaxTokens = proto.Int32(2) },
		"as many":     func(in *incoming) { in.prompt.MaxTokens = nil },
		"a text":      func(in *incoming) { in.prompt.InputIds, in.prompt.Text = nil, "hi" },
		"long":        func(in *incoming) { in.prompt.InputIds = []uint32{1, 2} },
		"an answer":   func(in *incoming) { in.reply = "inbox" },
	} {
		in := &incoming{flow: schemas.CanaryFlow(), prompt: &pb.Prompt{InputIds: []uint32{1}, MaxTokens: proto.Int32(1)}}
		change(in)
		if err := checkFlow(in); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// Each model's canary can be resolved.
func TestCanaryPrompt(t *testing.T) {
	m := edge.Model{Vocab: 9, MaxLen: 8, Mask: -1, Start: -1, Types: 1}
	for name, change := range map[string]func(*edge.Model){
		"decoder":                     func(*edge.Model) {},
		"encoder":                     func(m *edge.Model) { m.Task, m.Mask = model.Fill, 5 },
		"encoder without a mask":      func(m *edge.Model) { m.Task = model.Fill },
		"encoder and decoder":         func(m *edge.Model) { m.Task, m.Start = model.Answer, 3 },
		"encoder and decoder's start": func(m *edge.Model) { m.Task = model.Answer },
	} {
		t.Run(name, func(t *testing.T) {
			m := m
			change(&m)
			p := probe.CanaryPrompt("c", &m)
			body, err := proto.Marshal(p)
			if err == nil {
				err = checkFlow(&incoming{prompt: p, flow: schemas.CanaryFlow()})
			}
			if err != nil || len(body) == 0 {
				t.Fatal(err)
			}
			req, err := m.Resolve(p, time.Now(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.CheckSequence(req.Sequence); err != nil || req.Sequence.MaxTokens > 1 || req.Sequence.MaxTokens == 0 && req.Sequence.Score == "" {
				t.Errorf("%v, %v", req.Sequence, err)
			}
		})
	}
}
