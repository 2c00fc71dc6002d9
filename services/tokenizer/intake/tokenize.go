package intake

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/model"
	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/jinja"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	"github.com/switchyard/switchyard/schemas"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/tokenizer/admission"
	"github.com/switchyard/switchyard/services/tokenizer/delivery"
)

// tokenizingAtOnce bounds the prompts that a replica turns into ids, for clients that ask for
// these alone, and the ids that it turns into text.
const tokenizingAtOnce = 64

// Tokenizing answers clients that want the ids of a prompt, or the text of ids, and no answer.
type Tokenizing struct {
	*common
	text func() *tokenizer.Tokenizer // nil: the model has none
	held *policy.Portions
	asks *Asks // knows when the replica ends
}

func newTokenizing(c *common, asks *Asks, s Settings) *Tokenizing {
	return &Tokenizing{common: c, text: s.Text, held: policy.NewPortions(2 * tokenizingAtOnce), asks: asks}
}

// OnTokenize answers a Prompt with Tokens.
func (s *Tokenizing) OnTokenize(m *nats.Msg) {
	to := delivery.Destination{Subject: m.Reply, Origin: delivery.Inbox, Encoding: edge.EncodingOf(m.Header, m.Data)}
	if !s.delivery.Sender.Answerable(to) {
		return
	}
	if err := s.limitsOf(m).CheckSize(len(m.Data)); err != nil {
		s.answer(to, nil, err)
		return
	}
	flow := s.flowOf(m)
	if err := s.admission.CheckSpent(flow.Tenant); err != nil {
		s.answer(to, nil, err)
		return
	}
	if !s.held.Take(flow.Tenant, 1) {
		s.answer(to, nil, edge.Errorf(edge.Overloaded, "%d prompts are being tokenized already, and no more may, half of them of one tenant", s.held.Had()))
		return
	}
	s.tasks.Go(func() {
		defer s.d.Conn.Recover(m.Subject)
		defer s.held.Give(flow.Tenant, 1)
		tokens, err := s.tokenize(flow, m)
		s.answer(to, tokens, err)
	})
}

// flowOf is whose request it is, as gateways say. Others are no tenant's, and share what one has.
func (s *Tokenizing) flowOf(m *nats.Msg) (flow schemas.Flow) {
	tenant := m.Header.Get(schemas.HeaderTenant)
	if hmac.Equal([]byte(m.Header.Get(schemas.HeaderSeal)), []byte(schemas.Seal(s.secret, schemas.HeaderTenant, tenant))) {
		flow.Tenant = tenant
	}
	return flow
}

// limitsOf are those of a body. One that is counted alone need not fit the context.
func (s *Tokenizing) limitsOf(m *nats.Msg) edge.Limits {
	if m.Header.Get(schemas.HeaderCount) != "" {
		return edge.Limits{}
	}
	return s.limits
}

// tokenize reads a prompt and makes its ids, or the text of the ids that it has.
func (s *Tokenizing) tokenize(flow schemas.Flow, m *nats.Msg) (*pb.Tokens, error) {
	leave, err := s.desk.enter(s.asks.asking, flow, decodedBytes(len(m.Data)))
	if err != nil {
		return nil, edge.Errorf(edge.Overloaded, "the tokenizer that had the request stops; ask again")
	}
	defer func() { s.admission.ChargeTime(flow.Tenant, 0, leave()) }()
	p, _, err := s.limitsOf(m).DecodePrompt(m.Header, m.Data, true)
	if err != nil {
		return nil, err
	}
	text := s.text()
	if text == nil {
		return nil, edge.Errorf(edge.BadRequest, "the model has no tokenizer")
	}
	ids, err := s.model.Encode(p, time.Now())
	if err != nil {
		return nil, err
	}
	out := &pb.Tokens{Count: int32(len(ids))} // a message has fewer
	if m.Header.Get(schemas.HeaderCount) != "" {
		return out, nil
	}
	out.Ids, out.Text = ids, text.Decode(ids, false)
	for _, id := range ids {
		out.Pieces = append(out.Pieces, text.Bytes(id))
	}
	return out, nil
}

// answer sends what was asked for, or why there is none.
func (s *Tokenizing) answer(to delivery.Destination, tokens *pb.Tokens, err error) {
	if err != nil {
		tokens = &pb.Tokens{Error: s.errorOf(err)}
	}
	msg, err := edge.EncodeTokens(to.Encoding, to.Subject, tokens)
	if err == nil && int64(msg.Size()) > s.d.Edge.MaxPayload() {
		msg, err = edge.EncodeTokens(to.Encoding, to.Subject, &pb.Tokens{Error: s.errorOf(edge.Errorf(edge.PayloadTooLarge,
			"the answer has %d bytes, and the NATS server takes %d: ask in protobuf, or for a part", msg.Size(), s.d.Edge.MaxPayload()))})
	}
	if err == nil {
		err = s.delivery.Sender.Publish(to, msg)
	}
	if err != nil {
		s.d.Logger.Warn("a client that asked for token ids gets no answer", "error", err)
	}
}

func (s *Tokenizing) errorOf(err error) *pb.Error {
	var typed *edge.Error
	if !errors.As(admission.RetryLater(err), &typed) {
		s.d.Logger.Error("a prompt could not be tokenized", "error", err)
		typed = edge.Errorf(edge.Internal, "the prompt could not be tokenized; the tokenizer's log says why")
	}
	return edge.Refusal("", typed).Error
}

// Read reads what can be asked of a model whose sequences may be so long (0: as long as it
// can have), and its tokenizer; nil: it has none.
func Read(m *model.Model, maxLen int) (edge.Model, *tokenizer.Tokenizer, error) {
	out := edge.Model{
		Vocab: m.Spec.Vocab, MaxLen: m.Spec.LongestSequence(maxLen), EOS: m.Spec.EOS, Generation: m.Generation,
		Task: m.Spec.Task(), Types: m.Spec.SourceTypes(), Mask: m.Spec.Mask, Start: m.Spec.DecoderStart,
		Grammars: new(grammar.Checked),
	}
	t, err := tokenizer.Open(m.File)
	if errors.Is(err, tokenizer.ErrNone) {
		return out, nil, nil
	}
	if err != nil {
		return out, nil, fmt.Errorf("loading the tokenizer: %w", err)
	}
	out.EncodeText, out.MaxTokenBytes = t.EncodePrompt, t.MaxTokenBytes()
	out.DecodeIDs = func(ids []uint32) string { return t.Decode(ids, false) }
	if id, ok := t.Mask(); ok && out.Mask < 0 {
		out.Mask = int(id)
	}
	template, err := chat.Open(m.File)
	if err != nil {
		return out, nil, fmt.Errorf("loading the chat template: %w", err)
	}
	out.Calls = template.Syntax(t.ID)
	if template != nil {
		out.EncodeChat = (&chats{template, t, out.CheckText}).encode
		out.EncodeLong = (&chats{template, t, func(string) error { return nil }}).encode
	}
	return out, t, nil
}

// chats makes ids of messages.
type chats struct {
	template *chat.Template
	text     *tokenizer.Tokenizer
	check    func(text string) error
}

// encode writes a chat with the model's template. The template's special tokens
// count; with special, those in what the producer wrote do, too.
func (c *chats) encode(p *pb.Prompt, now time.Time, special bool) ([]uint32, error) {
	text, err := c.template.Write(chatOf(p, now))
	var refusal *chat.Refusal
	if errors.As(err, &refusal) {
		return nil, edge.Errorf(edge.BadRequest, "%v", err)
	}
	if err == nil {
		err = c.check(text.String())
	}
	if err != nil {
		return nil, err
	}
	if special {
		return c.text.Encode(text.String(), true)
	}
	return c.text.EncodeParts(partsOf(text), c.template.Writes)
}

func chatOf(p *pb.Prompt, now time.Time) chat.Chat {
	out := chat.Chat{Tools: p.Tools, Variables: p.ChatTemplateKwargs, Continue: p.ContinueFinal, Now: now.UTC()}
	for _, m := range p.Messages {
		out.Messages = append(out.Messages, chat.Message{
			Role: m.Role, Content: m.Content, Name: m.Name, ToolCallID: m.ToolCallId, Reasoning: m.ReasoningContent, ToolCalls: m.ToolCalls,
		})
	}
	return out
}

func partsOf(text jinja.Text) (parts []tokenizer.Part) {
	text.Pieces(func(s string, outside bool) { parts = append(parts, tokenizer.Part{Text: s, Outside: outside}) })
	return parts
}
