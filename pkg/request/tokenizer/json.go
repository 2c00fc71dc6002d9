package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// fileJSON is tokenizer.json. Truncation and padding are left out: they are
// settings of a training run, which transformers resets.
type fileJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelJSON       `json:"model"`
}

type modelJSON struct {
	Type         string            `json:"type"` // absent in old files
	Dropout      *float64          `json:"dropout"`
	Unk          *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	FuseUnk      bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
	MaxChars     *int              `json:"max_input_chars_per_word"`
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       []pairJSON        `json:"merges"`
}

// pairJSON is a merge: "a b", or ["a", "b"] in newer files.
type pairJSON [2]string

func (p *pairJSON) UnmarshalJSON(data []byte) error {
	var parts []string
	if len(data) > 0 && data[0] == '"' {
		var s string
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		parts = strings.Split(s, " ")
	} else if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("merge %s does not have two parts", data)
	}
	*p = pairJSON{parts[0], parts[1]}
	return nil
}

func parseJSON(data []byte) (*Tokenizer, *fileJSON, error) {
	var file fileJSON
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, fmt.Errorf("reading JSON: %w", err)
	}
	t := newTokenizer()
	var err error
	if t.normal, err = parseNormalizer(file.Normalizer); err != nil {
		return nil, nil, err
	}
	pre, err := parseStages(file.PreTokenizer)
	if err != nil {
		return nil, nil, err
	}
	t.stages, t.removes = pre.stages, pre.removes
	if t.model, err = file.Model.build(pre.byteLevel); err != nil {
		return nil, nil, err
	}
	return t, &file, t.fillFromJSON(&file, pre.byteLevel)
}

func (t *Tokenizer) fillFromJSON(file *fileJSON, byteLevel bool) error {
	if err := file.checkIDs(); err != nil {
		return err
	}
	text, bytewise, same, err := parseDecoder(file.Decoder, byteLevel)
	if err != nil {
		return err
	}
	t.pieces.bytewise = bytewise
	if !same {
		t.pieces.first = [][]byte{}
	}
	for token, id := range file.Model.Vocab {
		inner, first := text(token)
		if err := t.addToken(token, id, inner, first); err != nil {
			return fmt.Errorf("model: vocab: %w", err)
		}
	}
	return t.addTokens(file.AddedTokens, text)
}

// checkIDs looks at all ids before tables are made of them.
func (f *fileJSON) checkIDs() error {
	tokens := len(f.Model.Vocab) + len(f.AddedTokens)
	for token, id := range f.Model.Vocab {
		if err := checkIDs(id, tokens); err != nil {
			return fmt.Errorf("model: vocab: token %q: %w", token, err)
		}
	}
	for _, a := range f.AddedTokens {
		if err := checkIDs(a.ID, tokens); err != nil {
			return fmt.Errorf("added_tokens: %q: %w", a.Content, err)
		}
	}
	return nil
}

// addTokens takes added tokens over. One may repeat an entry of the
// vocabulary, with the same id.
func (t *Tokenizer) addTokens(added []addedToken, text decoder) error {
	for i := range added {
		a := &added[i]
		if a.Content == "" {
			continue
		}
		if id, known := t.ids[a.Content]; known && id != a.ID {
			return fmt.Errorf("added_tokens: %q has id %d, but it was %d before", a.Content, a.ID, id)
		} else if !known {
			inner, first := text(a.Content)
			if err := t.addToken(a.Content, a.ID, inner, first); err != nil {
				return fmt.Errorf("added_tokens: %w", err)
			}
		}
		if a.Special {
			t.special[a.ID] = true
		}
		if a.Normalized {
			t.normalized.add(t.normal.apply(a.Content), a)
		} else {
			t.raw.add(a.Content, a)
		}
	}
	t.raw.sort()
	t.normalized.sort()
	return nil
}
