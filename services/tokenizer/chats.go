package tokenizer

import (
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/request/chat"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/jinja"
	"github.com/switchyard/switchyard/pkg/request/tokenizer"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// chats makes ids of messages.
type chats struct {
	template *chat.Template
	text     *tokenizer.Tokenizer
	check    func(text string) error
}

// encode writes a chat with the model's template. The template's special tokens
// count; with special, those in what the producer wrote do, too.
func (c *chats) encode(p *pb.Prompt, now time.Time, special bool) ([]uint32, error) {
	text, err := c.template.Render(chatOf(p, now))
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
	out := chat.Chat{Tools: p.Tools, Variables: p.ChatTemplateKwargs, Now: now.UTC()}
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
