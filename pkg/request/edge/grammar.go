package edge

import (
	"github.com/switchyard/switchyard/pkg/compute/grammar"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// SpecOf returns what a sequence's answer keeps to.
func SpecOf(s *pb.Sequence) grammar.Spec {
	if len(s.Calls) == 0 {
		return specOf(s.Grammar)
	}
	out := grammar.Spec{Compact: true}
	for _, c := range s.Calls {
		out.Calls = append(out.Calls, grammar.Call{Before: string(c.Before), Schema: c.JsonSchema, After: string(c.After)})
	}
	return out
}

func specOf(g *pb.Grammar) grammar.Spec {
	return grammar.Spec{
		JSONSchema: g.GetJsonSchema(), JSONObject: g.GetJsonObject(), Regex: g.GetRegex(), Choice: g.GetChoice(), EBNF: g.GetEbnf(), Compact: g.GetCompact(),
	}
}

// Keeps reports whether a sequence's answer keeps to anything.
func Keeps(s *pb.Sequence) bool { return s.Grammar != nil || len(s.Calls) > 0 }

// checkGrammar compiles a grammar: what is wrong with it, or cannot be kept, is said before
// the request is accepted.
func (m Model) checkGrammar(p *pb.Prompt) error {
	if p.Grammar == nil {
		return nil
	}
	if err := m.mayKeep(p, "grammar"); err != nil {
		return err
	}
	if err := m.Grammars.Check(specOf(p.Grammar)); err != nil {
		return Errorf(BadRequest, "grammar: %v", err)
	}
	return nil
}
