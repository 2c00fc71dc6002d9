package tokenizer

import "slices"

// EncodePrompt encodes the text of a prompt as the model expects it. With
// special, special tokens in the text count; without, only the mask does, which is
// what a text is sent to a model that fills masks for. What begins a text (BOS) is
// put before it, unless the text already begins with it. What that is comes from the
// first of these that says something:
//
//  1. tokenizer_config.json's add_bos_token: its bos_token, or nothing;
//  2. the post_processor in tokenizer.json;
//  3. config.json's bos_token_id.
//
// The third is not Hugging Face's rule: there, nothing would be put before the
// text. Models without a post-processor whose config has a BOS, the demo model
// among them, were trained with it at the start of a text.
func (t *Tokenizer) EncodePrompt(text string, special bool) ([]uint32, error) {
	mask := t.maskToken()
	counts := func(token *addedToken, _, _ int) bool { return special || !token.Special || token.Content == mask }
	ids, err := t.encode(text, counts, nil)
	if err != nil {
		return nil, err
	}
	if n := len(t.prompt.before); len(ids) < n || !slices.Equal(ids[:n], t.prompt.before) {
		ids = slices.Concat(t.prompt.before, ids)
	}
	return append(ids, t.prompt.after...), nil
}

// Ends returns the special tokens that begin a text and end one, as tokenizer_config.json names them;
// empty: it names none.
func (t *Tokenizer) Ends() (bos, eos string) { return string(t.config.BOS), string(t.config.EOS) }

// Mask returns the token that stands for what a model is to fill in; false: the
// vocabulary has none.
func (t *Tokenizer) Mask() (uint32, bool) { return t.ID(t.maskToken()) }

// maskToken returns the token that stands for what a model is to fill in.
func (t *Tokenizer) maskToken() string {
	if t.config.MASK != "" {
		return string(t.config.MASK)
	}
	return "[MASK]" // BERT's, whose older folders have no tokenizer_config.json
}
