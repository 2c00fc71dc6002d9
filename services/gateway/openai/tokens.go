package openai

import (
	"context"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// Tokens is what is asked of a tokenizer.
type Tokens struct {
	Model  string
	Prompt *pb.Prompt
	// Texts says that each token's text is wanted, too, and Bare that what begins and ends a text
	// is not put around it.
	Texts, Bare bool
}

// ReadTokenize reads what is to become ids: prompt, or messages. The ids are those that a completion
// or a chat of the same has.
func ReadTokenize(ctx context.Context, body []byte) (*Tokens, error) {
	o, err := Open(ctx, body, fields.Tokenize)
	if err != nil {
		return nil, err
	}
	t := &Tokens{Model: Or(o, "model", ""), Prompt: &pb.Prompt{}, Texts: Or(o, "return_token_strs", false)}
	text := Take[string](o, "prompt")
	switch {
	case text == nil:
		messages(o, t.Prompt)
		tools(o, t.Prompt)
		template(o, t.Prompt)
		for _, name := range []string{"special_tokens", "add_special_tokens"} {
			if Or(o, name, false) {
				o.Fail(Unsupported(name, "a chat has those of its template alone"))
			}
		}
	case *text == "":
		o.Fail(Bad("prompt", "prompt is empty"))
	default:
		t.Prompt.Text, t.Prompt.SpecialTokens = *text, Or(o, "special_tokens", false)
		t.Bare = !Or(o, "add_special_tokens", true)
	}
	return t, o.End()
}

// ReadDetokenize reads ids that are to become text.
func ReadDetokenize(ctx context.Context, body []byte) (*Tokens, error) {
	o, err := Open(ctx, body, fields.Detokenize)
	if err != nil {
		return nil, err
	}
	t := &Tokens{Model: Or(o, "model", ""), Prompt: &pb.Prompt{InputIds: Or[[]uint32](o, "tokens", nil)}}
	return t, o.End()
}
