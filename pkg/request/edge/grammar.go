package edge

import (
	"github.com/switchyard/switchyard/pkg/compute/grammar"
	"github.com/switchyard/switchyard/pkg/compute/model"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SpecOf is what a grammar asks.
func SpecOf(g *pb.Grammar) grammar.Spec {
	return grammar.Spec{
		JSONSchema: g.GetJsonSchema(), JSONObject: g.GetJsonObject(), Regex: g.GetRegex(), Choice: g.GetChoice(), EBNF: g.GetEbnf(), Compact: g.GetCompact(),
	}
}

// checkGrammar compiles a grammar: what is wrong with it, or cannot be kept, is said before
// the request is accepted.
func (m Model) checkGrammar(p *pb.Prompt) error {
	if p.Grammar == nil {
		return nil
	}
	switch {
	case m.Task == model.Fill:
		return Errorf(BadRequest, "grammar is set; this model fills masks, none before another: leave it out")
	case m.EncodeText == nil:
		return Errorf(BadRequest, "grammar is set; the model has no tokenizer, so its answers have no text: leave it out")
	case p.IgnoreEos || p.GetMinTokens() > 0:
		return Errorf(BadRequest, "grammar says where an answer ends: leave out ignore_eos and min_tokens")
	case len(m.stopIDs(p)) == 0:
		return Errorf(BadRequest, "grammar is set, and the model names no end-of-sequence token: give one in stop_token_ids")
	}
	if _, err := grammar.Compile(SpecOf(p.Grammar)); err != nil {
		return Errorf(BadRequest, "grammar: %v", err)
	}
	return nil
}
