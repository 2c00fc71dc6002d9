package openai

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Completion is the reply to a completion, whole or a part of it.
type Completion struct {
	ID          string             `json:"id"`
	Object      string             `json:"object"`
	Created     int64              `json:"created"`
	Model       string             `json:"model"`
	Choices     []CompletionChoice `json:"choices"`
	Usage       *Usage             `json:"usage,omitempty"`
	Fingerprint string             `json:"system_fingerprint"`
}

// CompletionChoice is one answer of a completion, or a part of it.
type CompletionChoice struct {
	Index        int                 `json:"index"`
	Text         string              `json:"text"`
	TokenIDs     []uint32            `json:"token_ids,omitempty"`
	Logprobs     *CompletionLogprobs `json:"logprobs"`
	FinishReason *string             `json:"finish_reason"`
}

// CompletionLogprobs are lists with an item for each token. The first token of a text has no
// log-probability.
type CompletionLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float32           `json:"token_logprobs"`
	Top      []map[string]float32 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

// TokenText returns a token as text; bytes that are no text are written as such, so that tokens
// with different bytes have different texts.
func TokenText(token []byte) string {
	if utf8.Valid(token) {
		return string(token)
	}
	text := "bytes:"
	for _, b := range token {
		text += fmt.Sprintf(`\x%02x`, b)
	}
	return text
}

// numberText returns a token as its id, which vLLM's clients can ask for.
func numberText(id uint32) string { return "token_id:" + strconv.FormatUint(uint64(id), 10) }

// named returns a token as a text: its id where the client asks for that, and where it has no bytes.
func (w completionWriter) named(id uint32, token []byte) string {
	if w.numbered || len(token) == 0 {
		return numberText(id)
	}
	return TokenText(token)
}

// logprobsOf returns those of tokens that stand in a choice's text behind those that were told.
func (w completionWriter) logprobsOf(tokens []Token, c *Choice) *CompletionLogprobs {
	out := &CompletionLogprobs{Tokens: []string{}, Logprobs: []*float32{}, Top: []map[string]float32{}, Offsets: []int{}}
	for _, t := range tokens {
		text := w.named(t.ID, t.Bytes)
		out.Tokens, out.Offsets = append(out.Tokens, text), append(out.Offsets, c.offset)
		n := 0
		n, c.rest = t.advance(c.rest)
		c.offset += n
		if t.First {
			out.Logprobs, out.Top = append(out.Logprobs, nil), append(out.Top, nil)
			continue
		}
		top := map[string]float32{text: t.Logprob}
		for _, one := range t.Top {
			top[w.named(one.Id, one.Token)] = one.Logprob
		}
		out.Logprobs, out.Top = append(out.Logprobs, new(t.Logprob)), append(out.Top, top)
	}
	return out
}

func (h Head) completion(choices []CompletionChoice, u *Usage) Completion {
	return Completion{h.ID, h.Object, h.Created, h.Model, choices, u, h.Fingerprint}
}

// completionWriter writes replies to a completion.
type completionWriter struct {
	head               Head
	logprobs, numbered bool
}

func (w completionWriter) whole(choices []*Choice, u *Usage) any {
	all := make([]CompletionChoice, len(choices))
	for i, c := range choices {
		all[i] = CompletionChoice{Index: c.Index, Text: c.text.String(), TokenIDs: c.ids, FinishReason: &c.finish}
		if w.logprobs {
			all[i].Logprobs = w.logprobsOf(c.tokens, c)
		}
	}
	return w.head.completion(all, u)
}

func (w completionWriter) part(c *Choice, p Piece) []any {
	one := CompletionChoice{Index: c.Index, Text: p.Text, TokenIDs: p.ids}
	if w.logprobs && len(p.Tokens) > 0 {
		one.Logprobs = w.logprobsOf(p.Tokens, c)
	}
	if p.Finish != "" {
		one.FinishReason = &p.Finish
	}
	return []any{w.head.completion([]CompletionChoice{one}, nil)}
}

func (w completionWriter) usage(u *Usage) any { return w.head.completion([]CompletionChoice{}, u) }
