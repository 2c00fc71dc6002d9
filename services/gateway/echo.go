package gateway

import (
	"context"

	"google.golang.org/protobuf/proto"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// echo is a prompt that is told before its answer, with the log-probabilities of its tokens as
// they come.
type echo struct {
	text   string
	tokens []openai.Token // nil: they are not asked for
	told   bool
}

// echoed makes a prompt one of ids, whose tokens are known, and which is scored where
// log-probabilities are asked for.
func (d *Door) echoed(ctx context.Context, m upstream.Model, p *pb.Prompt) (scored *pb.Prompt, e *echo, err error) {
	tokens := &pb.Tokens{Ids: p.InputIds} // which is all there is to know without a tokenizer
	if m.Text || len(p.InputIds) == 0 {
		if tokens, err = d.Upstream.Tokens(ctx, m.Name, &pb.Prompt{Text: p.Text, InputIds: p.InputIds, SpecialTokens: p.SpecialTokens}); err != nil {
			return nil, nil, err
		}
	}
	e = &echo{text: p.Text}
	if e.text == "" {
		e.text = tokens.Text
	}
	p = proto.CloneOf(p)
	p.Text, p.InputIds = "", tokens.Ids
	if p.Logprobs == nil && p.GetMaxTokens() > 0 {
		return p, e, nil
	}
	p.Score = "logprobs"
	if p.Logprobs != nil {
		e.tokens = make([]openai.Token, len(tokens.Ids))
		for i := range e.tokens {
			e.tokens[i] = openai.Token{ID: tokens.Ids[i], Bytes: pieceOf(tokens, i), First: i == 0}
		}
	}
	return p, e, nil
}

func pieceOf(t *pb.Tokens, i int) []byte {
	if i < len(t.Pieces) {
		return t.Pieces[i]
	}
	return nil
}

// fresh is an echo for one of several answers; nil: there is none.
func (e *echo) fresh() *echo {
	if e == nil {
		return nil
	}
	return &echo{text: e.text, tokens: append([]openai.Token(nil), e.tokens...)}
}

// score notes what a position says of the token behind it.
func (e *echo) score(s *pb.Score) {
	next := int(s.Position) + 1
	if next < 1 || next >= len(e.tokens) || s.Logprob == nil {
		return
	}
	e.tokens[next].Logprob, e.tokens[next].Top = *s.Logprob, s.Top
}
