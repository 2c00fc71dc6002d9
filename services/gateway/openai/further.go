package openai

import (
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// further takes what decides about tokens beyond temperature, top_p and top_k.
func further(o *Object, _ *pb.Prompt) {
	o.Refuse("the services do not sample by it", "presence_penalty", "frequency_penalty", "min_p", "logit_bias", "min_tokens")
}
