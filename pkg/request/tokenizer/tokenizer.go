package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Tokenizer encodes and decodes. It is safe for concurrent use.
type Tokenizer struct {
	raw, normalized *trie // added tokens looked for before and after normalising
	normalize       func(string) string
	normalizes      bool // normalize changes anything
	stages          []stage
	removes         bool // stages leave parts of a text out
	model           *bpe
	bytes           [][]byte // of each id; nil where there is none
	special         map[uint32]bool
	ids             map[string]uint32 // vocabulary and added tokens, as written in the file
	prompt          frame
	config          configJSON
}

// Open reads tokenizer.json and, where they are there, tokenizer_config.json,
// chat_template.jinja and config.json, which say how a prompt begins and how a
// chat is written. files returns a file of the model's folder. The error names
// the file and what in it is wrong or not supported.
func Open(files func(name string) ([]byte, bool)) (*Tokenizer, error) {
	data, ok := files("tokenizer.json")
	if !ok {
		return nil, errors.New("tokenizer.json is not there: without it only token ids can be sent")
	}
	t, file, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if err := t.readConfig(files, file.PostProcessor); err != nil {
		return nil, err
	}
	return t, nil
}

// parse reads tokenizer.json alone.
func parse(data []byte) (*Tokenizer, *fileJSON, error) {
	var file fileJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, fmt.Errorf("reading JSON: %w", err)
	}
	t := &Tokenizer{}
	forms, err := parseNormalizer(file.Normalizer)
	if err != nil {
		return nil, nil, err
	}
	t.normalize, t.normalizes = normalizer(forms), len(forms) > 0
	if t.stages, t.removes, err = parseStages(file.PreTokenizer); err != nil {
		return nil, nil, err
	}
	if err = checkDecoder(file.Decoder); err != nil {
		return nil, nil, err
	}
	if t.model, err = file.Model.build(); err != nil {
		return nil, nil, err
	}
	if err = t.fillVocab(file.Model.Vocab); err != nil {
		return nil, nil, err
	}
	return t, &file, t.addTokens(file.AddedTokens)
}

// fillVocab fills the tables from ids to bytes.
func (t *Tokenizer) fillVocab(vocab map[string]uint32) error {
	t.ids = vocab
	for token, id := range vocab {
		if err := t.setBytes(id, token); err != nil {
			return fmt.Errorf("model: vocab: %w", err)
		}
	}
	return nil
}

func (t *Tokenizer) setBytes(id uint32, token string) error {
	if id >= maxID {
		return fmt.Errorf("token %q has id %d, above the limit of %d", token, id, maxID)
	}
	if n := int(id) + 1; n > len(t.bytes) {
		t.bytes = append(t.bytes, make([][]byte, n-len(t.bytes))...)
	}
	if t.bytes[id] != nil {
		return fmt.Errorf("id %d is given twice, the second time to %q", id, token)
	}
	b, _ := bytesOf(token)
	t.bytes[id] = append([]byte{}, b...) // not nil, even if empty
	return nil
}

// addTokens takes added tokens over. One may repeat an entry of the
// vocabulary, with the same id.
func (t *Tokenizer) addTokens(added []addedToken) error {
	t.raw, t.normalized, t.special = &trie{}, &trie{}, map[uint32]bool{}
	for i := range added {
		a := &added[i]
		if a.Content == "" {
			continue
		}
		if id, known := t.ids[a.Content]; known && id != a.ID {
			return fmt.Errorf("added_tokens: %q has id %d, but it was %d before", a.Content, a.ID, id)
		} else if !known {
			if err := t.setBytes(a.ID, a.Content); err != nil {
				return fmt.Errorf("added_tokens: %w", err)
			}
			t.ids[a.Content] = a.ID
		}
		if a.Special {
			t.special[a.ID] = true
		}
		if a.Normalized {
			t.normalized.add(t.normalize(a.Content), a)
		} else {
			t.raw.add(a.Content, a)
		}
	}
	return nil
}

// Encode returns the ids of text. With special, special tokens in the text
// become their ids; without, they are text like any other. Nothing is put
// before or after. It fails only where a pattern takes too long.
func (t *Tokenizer) Encode(text string, special bool) ([]uint32, error) {
	var ids []uint32
	for _, outer := range t.raw.cut(text, special) {
		if outer.token != nil {
			ids = append(ids, outer.token.ID)
			continue
		}
		for _, inner := range t.normalized.cut(t.normalize(outer.text), special) {
			if inner.token != nil {
				ids = append(ids, inner.token.ID)
				continue
			}
			var err error
			if ids, err = t.encodeText(ids, inner.text); err != nil {
				return nil, fmt.Errorf("encoding text: %w", err)
			}
		}
	}
	return ids, nil
}

// encodeText appends the ids of a text without added tokens.
func (t *Tokenizer) encodeText(ids []uint32, text string) ([]uint32, error) {
	if text == "" {
		return ids, nil
	}
	err := split(t.stages, text, func(word string) error {
		ids = t.model.encode(ids, word)
		return nil
	})
	return ids, err
}

// EncodePrompt encodes the text of a prompt as the model expects it: special
// tokens in the text count, and what begins a text (BOS) is put before it,
// unless the text already begins with it. What that is comes from the first of
// these that says something:
//
//  1. tokenizer_config.json's add_bos_token: its bos_token, or nothing;
//  2. the TemplateProcessing in tokenizer.json's post_processor;
//  3. config.json's bos_token_id.
//
// The third is not Hugging Face's rule: there, nothing would be put before the
// text. Models without a post-processor whose config has a BOS, the demo model
// among them, were trained with it at the start of a text.
func (t *Tokenizer) EncodePrompt(text string) ([]uint32, error) {
	ids, err := t.Encode(text, true)
	if err != nil {
		return nil, err
	}
	if n := len(t.prompt.before); len(ids) < n || !slices.Equal(ids[:n], t.prompt.before) {
		ids = slices.Concat(t.prompt.before, ids)
	}
	return append(ids, t.prompt.after...), nil
}

// Decode returns the text of ids, with U+FFFD for bytes that are not UTF-8.
// Unknown ids are left out, as are special tokens with skipSpecial.
func (t *Tokenizer) Decode(ids []uint32, skipSpecial bool) string {
	return lossy(t.DecodeBytes(ids, skipSpecial))
}

// DecodeBytes is Decode before bytes are made text.
func (t *Tokenizer) DecodeBytes(ids []uint32, skipSpecial bool) []byte {
	var b bytes.Buffer
	for _, id := range ids {
		b.Write(t.tokenBytes(id, skipSpecial))
	}
	return b.Bytes()
}

// tokenBytes must not be changed by the caller.
func (t *Tokenizer) tokenBytes(id uint32, skipSpecial bool) []byte {
	if int64(id) >= int64(len(t.bytes)) || skipSpecial && t.special[id] {
		return nil
	}
	return t.bytes[id]
}

// Vocab is one more than the highest id, added tokens included.
func (t *Tokenizer) Vocab() int { return len(t.bytes) }

// maxShrink is how many times fewer bytes a text has in a normal form at most:
// letters of four bytes become ASCII, and what follows is composed with them.
const maxShrink = 4

// MaxTokenBytes is the most bytes of a text that one id stands for; 0 if there
// is no such bound, because some bytes or spaces of a text leave no id.
func (t *Tokenizer) MaxTokenBytes() (most int) {
	if t.removes || t.model.drops() || t.raw.strips() || t.normalized.strips() {
		return 0
	}
	for _, b := range t.bytes {
		most = max(most, len(b))
	}
	if t.normalizes {
		return most * maxShrink
	}
	return most
}

// IsSpecial reports whether id is a special token.
func (t *Tokenizer) IsSpecial(id uint32) bool { return t.special[id] }

// ID returns the id of a token as tokenizer.json writes it, such as
// "<|endoftext|>".
func (t *Tokenizer) ID(token string) (uint32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Bytes returns a copy of the bytes of one token, nil for unknown ids.
func (t *Tokenizer) Bytes(id uint32) []byte { return slices.Clone(t.tokenBytes(id, false)) }
