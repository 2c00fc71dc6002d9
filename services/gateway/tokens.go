package gateway

import (
	"net/http"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
	"github.com/switchyard/switchyard/services/gateway/openai"
	"github.com/switchyard/switchyard/services/gateway/reply"
)

// tokenize tells the ids of a text or a chat, as vLLM's clients ask for them.
func (d *Door) tokenize(c *call) error {
	ask, err := readBody(d, c, openai.ReadTokenize)
	if err != nil {
		return err
	}
	m, err := d.Upstream.Find(c.r.Context(), ask.Model)
	if err != nil {
		return err
	}
	tokens, err := d.Upstream.Tokens(c.r.Context(), m.Name, ask.Prompt)
	if err != nil {
		return d.refusal(c.r.Context(), err, m.Context)
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
	reply.JSON(c.w, http.StatusOK, out)
	return nil
}

// detokenize tells the text of ids.
func (d *Door) detokenize(c *call) error {
	ask, err := readBody(d, c, openai.ReadDetokenize)
	if err != nil {
		return err
	}
	m, err := d.Upstream.Find(c.r.Context(), ask.Model)
	if err != nil {
		return err
	}
	tokens := &pb.Tokens{}
	if len(ask.Prompt.InputIds) > 0 {
		if tokens, err = d.Upstream.Tokens(c.r.Context(), m.Name, ask.Prompt); err != nil {
			return d.refusal(c.r.Context(), err, m.Context)
		}
	}
	reply.JSON(c.w, http.StatusOK, struct {
		Prompt string `json:"prompt"`
	}{tokens.Text})
	return nil
}

// tokenizerInfo tells what is known of a model's tokenizer.
func (d *Door) tokenizerInfo(c *call) error {
	name := c.r.URL.Query().Get("model")
	if all := d.Upstream.Models(); name == "" && len(all) == 1 {
		name = all[0].Name
	}
	if name == "" {
		return reply.Bad("model", "several models are served: name one as ?model=NAME")
	}
	m, err := d.Upstream.Find(c.r.Context(), name)
	if err != nil {
		return err
	}
	reply.JSON(c.w, http.StatusOK, struct {
		Model string `json:"model"`
		Vocab int    `json:"vocab_size"`
		Max   int    `json:"model_max_length"`
		Text  bool   `json:"has_tokenizer"`
		Chat  bool   `json:"has_chat_template"`
	}{m.Name, m.Vocab, m.Context, m.Text, m.Chat})
	return nil
}
