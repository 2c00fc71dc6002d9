package openai

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// completionTokens is how long a completion is that does not say, as OpenAI has it.
const completionTokens = 16

// ReadCompletion reads the body of a completion.
func ReadCompletion(ctx context.Context, body []byte) (*Ask, error) {
	o, err := Open(ctx, body, fields.Completion)
	if err != nil {
		return nil, err
	}
	a := &Ask{IDs: Or(o, "return_token_ids", false)}
	p := common(o, a)
	p.MaxTokens = a.maxTokens(o, "max_tokens", "max_completion_tokens")
	if p.MaxTokens == nil && !a.Rest {
		p.MaxTokens = new(int32(completionTokens))
	}
	a.Echo, a.Logprobs = Or(o, "echo", false), Take[int32](o, "logprobs")
	p.Logprobs = a.Logprobs
	if p.MaxTokens != nil && *p.MaxTokens == 0 && !a.Echo {
		o.Fail(Bad("max_tokens", "max_tokens is 0, which needs echo; it must be 1 or more"))
	}
	p.SpecialTokens, a.Bare = Or(o, "special_tokens", false), !Or(o, "add_special_tokens", true)
	a.Prompts = prompts(o, p)
	if n := a.Answers(); n > fields.MostAnswers {
		o.Fail(Bad("prompt", "%d answers are asked for; one request may have %d", n, fields.MostAnswers))
	}
	return a, o.End()
}

// prompts are one text, several, ids, or lists of ids; each shares the rest of p.
func prompts(o *Object, p *pb.Prompt) (out []*pb.Prompt) {
	with := func(text string, ids []uint32) {
		one := client.Share(p)
		one.Text, one.InputIds = text, ids
		out = append(out, one)
	}
	raw := o.Raw("prompt")
	if raw == nil {
		o.Fail(Bad("prompt", "you must provide a prompt parameter"))
		return nil
	}
	var text string
	var texts []string
	var ids []uint32
	var lists [][]uint32
	switch kind := kindOf(raw); {
	case kind == "\"" && json.Unmarshal(raw, &text) == nil:
		with(text, nil)
	case kind == "[\"" && json.Unmarshal(raw, &texts) == nil:
		for _, one := range texts {
			with(one, nil)
		}
	case kind == "[[" && json.Unmarshal(raw, &lists) == nil:
		for _, one := range lists {
			with("", one)
		}
	case kind == "[" && json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		with("", ids)
	default:
		o.Fail(Bad("prompt", "prompt must be a string, strings, a list of token ids, or lists of them, and not empty"))
	}
	return out
}

// kindOf is what a value begins with: of a list that has texts or lists, also what its first element
// begins with. So no value is read as what it is not.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	kind := string(raw[:min(1, len(raw))])
	if rest := bytes.TrimSpace(raw[len(kind):]); kind == "[" && len(rest) > 0 && (rest[0] == '"' || rest[0] == '[') {
		kind += string(rest[:1])
	}
	return kind
}
