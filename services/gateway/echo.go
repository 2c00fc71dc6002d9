package gateway

import (
	"bytes"
	"context"
	"strings"

	"github.com/switchyard/switchyard/pkg/request/client"
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
	text := p.Text
	e = &echo{text: text}
	if e.text == "" {
		e.text = tokens.Text
	}
	p = client.Share(p)
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
		if text != "" {
			show(e.tokens, text, m)
		}
	}
	return p, e, nil
}

// show notes which tokens of a text are not in it: those that its tokenizer has put around it, and
// the space with which some begin the first word.
func show(tokens []openai.Token, text string, m upstream.Model) {
	begin, end := 0, len(tokens)
	if begun, ended := around(text, m, func(i int) string { return string(tokens[i].Bytes) }, len(tokens)); begun || ended {
		if begun {
			tokens[0].Shown, begin = &[]byte{}, 1
		}
		if ended {
			end--
			tokens[end].Shown = &[]byte{}
		}
	}
	if begin < end && !strings.HasPrefix(text, " ") {
		if word, spaced := bytes.CutPrefix(tokens[begin].Bytes, []byte(" ")); spaced {
			tokens[begin].Shown = &word
		}
	}
}

// rest lets an answer take what its prompt leaves of the context.
func (d *Door) rest(ctx context.Context, m upstream.Model, p *pb.Prompt) (*pb.Prompt, error) {
	ids := p.InputIds
	if len(ids) == 0 {
		tokens, err := d.Upstream.Tokens(ctx, m.Name, &pb.Prompt{Text: p.Text, SpecialTokens: p.SpecialTokens})
		if err != nil {
			return nil, err
		}
		ids = tokens.Ids
	}
	p = client.Share(p)
	p.MaxTokens = new(int32(max(1, m.Context-len(ids)))) // a context is less
	return p, nil
}

// bare makes a text's prompt one of ids, without what its tokenizer puts around texts.
func (d *Door) bare(ctx context.Context, m upstream.Model, p *pb.Prompt) (*pb.Prompt, error) {
	if p.Text == "" {
		return p, nil // ids are as they are
	}
	tokens, err := d.Upstream.Tokens(ctx, m.Name, &pb.Prompt{Text: p.Text, SpecialTokens: p.SpecialTokens})
	if err != nil {
		return nil, err
	}
	withoutEnds(tokens, p.Text, m)
	p = client.Share(p)
	p.Text, p.InputIds = "", tokens.Ids
	return p, nil
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

// bytes are about those of its tokens, of which each answer has its own.
func (e *echo) bytes() (n int64) {
	const perToken = 128
	if e != nil {
		n = perToken * int64(len(e.tokens))
	}
	return n
}

// score notes what a position says of the token behind it.
func (e *echo) score(s *pb.Score) {
	next := int(s.Position) + 1
	if next < 1 || next >= len(e.tokens) || s.Logprob == nil {
		return
	}
	e.tokens[next].Logprob, e.tokens[next].Top = *s.Logprob, s.Top
}
