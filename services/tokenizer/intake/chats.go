package intake

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/jinja"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Read reads what can be asked of a model whose sequences may be so long (0: as long as it
// can have), and its tokenizer; nil: it has none.
func Read(m *model.Model, maxLen int) (edge.Model, *tokenizer.Tokenizer, error) {
	out := edge.Model{
		Vocab: m.Spec.Vocab, MaxLen: m.Spec.LongestSequence(maxLen), EOS: m.Spec.EOS, Generation: m.Generation,
		Task: m.Spec.Task(), Types: m.Spec.SourceTypes(), Mask: m.Spec.Mask, Start: m.Spec.DecoderStart,
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
