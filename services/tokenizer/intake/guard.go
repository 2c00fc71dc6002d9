package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// guard refuses what is for models that no replica serves.
type guard struct {
	*common
	served servedModels
}

// unservedLimits are what is read of a request for such a model: of one that is larger, its
// headers alone say whom to tell.
var unservedLimits = edge.Limits{Bytes: 64 << 10, Tokens: 1}

// onAnyPrompt refuses prompts for such models: no stream takes them, so the
// publisher would wait for nothing.
func (s *guard) onAnyPrompt(m *nats.Msg) {
	model, _, _ := s.d.Subjects.ParsePrompt(m.Subject)
	token, unserved := s.unserved(model)
	if !unserved {
		return
	}
	cause := s.notFound(token)
	p, encoding, _ := unservedLimits.DecodePrompt(m.Header, m.Data, false)
	refusal := edge.Refusal(admission.UsableID(p.GetRequestId()), cause)
	to := delivery.Destination{Subject: replyOf(m.Header, p), Encoding: encoding}
	if s.delivery.Sender.MayReply(to) != nil {
		to = s.rejected(token)
	}
	s.delivery.Sender.Tell(to, refusal)
	if ack := (delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox}); m.Reply != "" && s.delivery.Sender.Answerable(ack) {
		// The publisher is told as well.
		if err := s.delivery.Sender.Publish(ack, &nats.Msg{Data: refusedAck(cause)}); err != nil {
			s.d.Logger.Debug("refusing a prompt", "error", err)
		}
	}
}

// onAnyAsk tells callers that no replica serves the model they ask.
func (s *guard) onAnyAsk(m *nats.Msg) {
	to := delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox}
	model, _, _ := s.d.Subjects.ParseAsk(m.Subject)
	token, unserved := s.unserved(model)
	if !unserved || !s.delivery.Sender.Answerable(to) {
		return
	}
	var p *pb.Prompt
	p, to.Encoding, _ = unservedLimits.DecodePrompt(m.Header, m.Data, true)
	s.delivery.Sender.Tell(to, edge.Refusal(admission.UsableID(p.GetRequestId()), s.notFound(token)))
}

// notFound is the refusal of a request for a model that no replica serves.
func (s *guard) notFound(model string) *edge.Error {
	cause := edge.Errorf(edge.ModelNotFound, "no model %q is served here; served here: %s", model, s.servedHere())
	s.count(cause)
	return cause
}

// unserved is a model's name as subjects have it, and whether no replica serves it.
func (s *guard) unserved(model string) (token string, unserved bool) {
	if model == s.d.Subjects.Model || len(model) > schemas.MaxPrefix {
		return "", false
	}
	if schemas.CheckModelToken(model) != nil {
		return schemas.ModelToken(model), true // no service can have such a name
	}
	return model, !s.hasStream(model)
}

// hasStream reports whether another model's stream takes the prompt, or may: where the server
// does not tell, it may have taken it.
func (s *guard) hasStream(model string) bool {
	name, err := s.d.Conn.JetStream().StreamNameBySubject(s.ctx, schemas.NewSubjects(s.d.Subjects.Prefix, model).Prompt())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false
	}
	if err != nil {
		if s.ctx.Err() == nil {
			s.d.Logger.Warn("looking for another model's stream; a request for it is not refused", "model", model, "error", err)
		}
		return true
	}
	return strings.HasSuffix(name, "_"+model)
}

// refusedAck is what a JetStream publish gets in place of its acknowledgement.
func refusedAck(e *edge.Error) []byte {
	body, err := json.Marshal(map[string]any{
		"stream": "", "error": map[string]any{"code": 404, "err_code": 10059, "description": e.Error()},
	})
	if err != nil {
		return []byte(`{"error":{"code":404,"description":"model_not_found"}}`)
	}
	return body
}

const (
	// servedAge is how long a look at the models that are served here lasts: what asks
	// for others may come often.
	servedAge = 5 * time.Second
	// servedWithin bounds such a look, for which a refusal waits.
	servedWithin = 500 * time.Millisecond
	// maxServed and maxServedName bound what a refusal says of them, in names and in bytes of one.
	maxServed, maxServedName = 10, 64
)

// servedModels are the models that are served here, as refusals name them.
type servedModels struct {
	mu     sync.Mutex
	looked time.Time
	text   string
}

// servedHere names the models that producers can ask here, which are no secret among them.
func (s *guard) servedHere() string {
	m := &s.served
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); m.looked.IsZero() || now.Sub(m.looked) >= servedAge {
		m.looked, m.text = now, nameServed(s.d.Subjects.Model, s.lookForModels())
	}
	return m.text
}

// lookForModels are the models whose prompts a stream takes, as far as the server says.
func (s *guard) lookForModels() (models []string) {
	ctx, cancel := context.WithTimeout(s.ctx, servedWithin)
	defer cancel()
	all := schemas.Streams{Subjects: schemas.Subjects{Prefix: s.d.Subjects.Prefix, Model: "*"}}
	before := strings.TrimSuffix(all.Prompts().Name, "*")
	streams := s.d.Conn.JetStream().StreamNames(ctx, jetstream.WithStreamListSubject(all.Subjects.Prompt()))
	for name := range streams.Name() {
		if model, ok := strings.CutPrefix(name, before); ok && schemas.ModelToken(model) == model {
			models = append(models, model)
		}
	}
	return models
}

// nameServed names models, own before all others.
func nameServed(own string, others []string) string {
	slices.Sort(others)
	names := []string{own}
	for _, model := range slices.Compact(others) {
		if model != own {
			names = append(names, model)
		}
	}
	all := len(names)
	names = slices.DeleteFunc(names, func(name string) bool { return len(name) > maxServedName })
	names = names[:min(len(names), maxServed)]
	switch more := all - len(names); {
	case len(names) == 0:
		return fmt.Sprintf("%d models", all)
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}
