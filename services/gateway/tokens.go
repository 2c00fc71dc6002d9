package gateway

import (
	"context"
	"net/http"
	"strings"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/fields"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/upstream"
)

// tokenize tells the ids of a text or a chat, as vLLM's clients ask for them.
func (d *Door) tokenize(c *call) error {
	ask, err := readBody(d, c, fields.Tokenize, openai.ReadTokenize)
	if err != nil {
		return err
	}
	m, leave, err := d.enterModel(c.r.Context(), c, ask.Model)
	if err != nil {
		return err
	}
	defer leave()
	if err := c.holds(ask.Prompt); err != nil {
		return err
	}
	tokens, err := d.Upstream.Tokens(c.r.Context(), m.Name, ask.Prompt)
	if err != nil {
		return d.refusal(c.r.Context(), err, m.Context)
	}
	if ask.Bare {
		withoutEnds(tokens, ask.Prompt.Text, m)
	}
	ids := tokens.Ids
	if ids == nil {
		ids = []uint32{}
	}
	out := struct {
		Count  int      `json:"count"`
		Max    int      `json:"max_model_len"`
		Tokens []uint32 `json:"tokens"`
		Texts  []string `json:"token_strs"`
	}{len(ids), m.Context, ids, nil}
	if ask.Texts {
		for _, piece := range tokens.Pieces {
			out.Texts = append(out.Texts, openai.TokenText(piece))
		}
	}
	openai.WriteJSON(c.w, http.StatusOK, out)
	return nil
}

// withoutEnds takes from a text's ids what its tokenizer has put around it.
func withoutEnds(t *pb.Tokens, text string, m upstream.Model) {
	begun, ended := around(text, m, func(i int) string { return string(pieceOf(t, i)) }, len(t.Ids))
	if ended {
		n := len(t.Ids) - 1
		t.Ids, t.Pieces = t.Ids[:n], t.Pieces[:n]
	}
	if begun {
		t.Ids, t.Pieces = t.Ids[1:], t.Pieces[1:]
	}
}

// around reports whether the first and the last of a text's tokens are none of it.
func around(text string, m upstream.Model, piece func(int) string, tokens int) (begun, ended bool) {
	begun = tokens > 0 && m.BOS != "" && piece(0) == m.BOS && !strings.HasPrefix(text, m.BOS)
	left := tokens
	if begun {
		left--
	}
	ended = left > 0 && m.EOS != "" && piece(tokens-1) == m.EOS && !strings.HasSuffix(text, m.EOS)
	return begun, ended
}

// detokenize tells the text of ids.
func (d *Door) detokenize(c *call) error {
	ask, err := readBody(d, c, fields.Detokenize, openai.ReadDetokenize)
	if err != nil {
		return err
	}
	m, leave, err := d.enterModel(c.r.Context(), c, ask.Model)
	if err != nil {
		return err
	}
	defer leave()
	if err := c.holds(ask.Prompt); err != nil {
		return err
	}
	tokens := &pb.Tokens{}
	if len(ask.Prompt.InputIds) > 0 {
		if tokens, err = d.Upstream.Tokens(c.r.Context(), m.Name, ask.Prompt); err != nil {
			return d.refusal(c.r.Context(), err, m.Context)
		}
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		Prompt string `json:"prompt"`
	}{tokens.Text})
	return nil
}

// enterModel finds a model, and takes a place for one answer of it.
func (d *Door) enterModel(ctx context.Context, c *call, name string) (m upstream.Model, leave func(), err error) {
	if m, err = d.named(ctx, c, name); err != nil {
		return m, nil, err
	}
	leave, err = d.enter(c, 1)
	return m, leave, err
}

// named is the model of a name. vLLM serves one, which its clients need not name here.
func (d *Door) named(ctx context.Context, c *call, name string) (upstream.Model, error) {
	if all := d.models(c); name == "" && len(all) == 1 {
		return all[0], nil
	}
	if name == "" {
		return upstream.Model{}, openai.Bad("model", "several models are served, or none yet: name one as model")
	}
	return d.model(ctx, c, name)
}

func unlessEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// tokenizerInfo tells what is known of a model's tokenizer.
func (d *Door) tokenizerInfo(c *call) error {
	m, err := d.named(c.r.Context(), c, c.r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	openai.WriteJSON(c.w, http.StatusOK, struct {
		Model string  `json:"model"`
		Vocab int     `json:"vocab_size"`
		Max   int     `json:"model_max_length"`
		BOS   *string `json:"bos_token"`
		EOS   *string `json:"eos_token"`
		Text  bool    `json:"has_tokenizer"`
		Chat  bool    `json:"has_chat_template"`
	}{m.Name, m.Vocab, m.Context, unlessEmpty(m.BOS), unlessEmpty(m.EOS), m.Text, m.Chat})
	return nil
}
