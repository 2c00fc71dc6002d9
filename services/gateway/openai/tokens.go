package openai

import pb "github.com/switchyard/switchyard/schemas/switchyard/v1"

// Tokens is what is asked of a tokenizer.
type Tokens struct {
	Model  string
	Prompt *pb.Prompt
	// Texts says that each token's text is wanted, too, and Bare that what begins and ends a text
	// is not put around it.
	Texts, Bare bool
}

// ReadTokenize reads what is to become ids: prompt, or messages. Special tokens in a prompt count
// here, as they do for vLLM.
func ReadTokenize(body []byte) (*Tokens, error) {
	o, err := Parse(body)
	if err != nil {
		return nil, err
	}
	t := &Tokens{Model: Or(o, "model", ""), Prompt: &pb.Prompt{}, Texts: Or(o, "return_token_strs", false)}
	text := Take[string](o, "prompt")
	switch {
	case text == nil:
		t.Prompt.Messages = messages(o)
		tools(o, t.Prompt)
		template(o, t.Prompt)
	case *text == "":
		o.Fail(Bad("prompt", "prompt is empty"))
	default:
		t.Prompt.Text, t.Prompt.SpecialTokens = *text, Or(o, "special_tokens", true)
		t.Bare = !Or(o, "add_special_tokens", true)
	}
	o.Ignore("add_special_tokens", "add_generation_prompt")
	return t, o.End()
}

// ReadDetokenize reads ids that are to become text.
func ReadDetokenize(body []byte) (*Tokens, error) {
	o, err := Parse(body)
	if err != nil {
		return nil, err
	}
	t := &Tokens{Model: Or(o, "model", ""), Prompt: &pb.Prompt{InputIds: Or[[]uint32](o, "tokens", nil)}}
	return t, o.End()
}
