package openai

import (
	"encoding/json"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// completionTokens is how long a completion is that does not say, as OpenAI has it.
const completionTokens = 16

// ReadCompletion reads the body of a completion.
func ReadCompletion(body []byte) (*Ask, error) {
	o, err := Open(body, fields.Completion)
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
	if n := a.Answers(); n > mostAnswers {
		o.Fail(Bad("prompt", "%d answers are asked for; one request may have %d", n, mostAnswers))
	}
	return a, o.End()
}

// prompts are one text, several, ids, or lists of ids; each has the rest of p.
func prompts(o *Object, p *pb.Prompt) (out []*pb.Prompt) {
	with := func(text string, ids []uint32) {
		one := proto.CloneOf(p)
		one.Text, one.InputIds = text, ids
		out = append(out, one)
	}
	raw := o.Raw("prompt")
	var text string
	var texts []string
	var ids []uint32
	var lists [][]uint32
	switch {
	case raw == nil:
		o.Fail(Bad("prompt", "you must provide a prompt parameter"))
	case json.Unmarshal(raw, &text) == nil:
		with(text, nil)
	case json.Unmarshal(raw, &texts) == nil && len(texts) > 0:
		for _, one := range texts {
			with(one, nil)
		}
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		with("", ids)
	case json.Unmarshal(raw, &lists) == nil && len(lists) > 0:
		for _, one := range lists {
			with("", one)
		}
	default:
		o.Fail(Bad("prompt", "prompt must be a string, strings, a list of token ids, or lists of them, and not empty"))
	}
	return out
}
