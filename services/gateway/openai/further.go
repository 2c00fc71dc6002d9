package openai

import (
	"strconv"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// further takes what decides about tokens beyond temperature, top_p and top_k.
func further(o *Object, p *pb.Prompt) {
	p.PresencePenalty, p.FrequencyPenalty = Take[float64](o, "presence_penalty"), Take[float64](o, "frequency_penalty")
	p.MinP, p.MinTokens = Take[float64](o, "min_p"), Take[int32](o, "min_tokens")
	for id, bias := range Or[map[string]float64](o, "logit_bias", nil) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			o.Fail(Bad("logit_bias", "logit_bias has %.40q; it must be a token's id", id))
			return
		}
		if p.LogitBias == nil {
			p.LogitBias = map[uint32]float64{}
		}
		p.LogitBias[uint32(n)] = bias
	}
}
