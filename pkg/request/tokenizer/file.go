package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// maxID bounds token ids: a table of all ids is allocated.
const maxID = 1 << 24

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
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       []pairJSON        `json:"merges"`
}

// pairJSON is a merge: "a b", or ["a", "b"] in newer files.
type pairJSON [2]string

// UnmarshalJSON reads either form.
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

// check refuses features of a BPE model that byte-level models do not have.
func (m *modelJSON) check() error {
	nonEmpty := func(s *string) bool { return s != nil && *s != "" }
	switch {
	case m.Type != "BPE" && m.Type != "":
		return fmt.Errorf("model: type %q is not supported; only BPE is", m.Type)
	case len(m.Vocab) == 0:
		return fmt.Errorf("model: vocab is missing or empty")
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model: dropout %v is not supported: it makes ids random", *m.Dropout)
	case nonEmpty(m.Prefix):
		return fmt.Errorf("model: continuing_subword_prefix %q is not supported", *m.Prefix)
	case nonEmpty(m.Suffix):
		return fmt.Errorf("model: end_of_word_suffix %q is not supported", *m.Suffix)
	case m.ByteFallback:
		return fmt.Errorf("model: byte_fallback is not supported: the model is not byte-level")
	}
	return nil
}

// build makes the merger.
func (m *modelJSON) build() (*bpe, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b := &bpe{unk: noID, merges: make(map[uint64]merge, len(m.Merges)), cacheEntries: cacheWords}
	if m.Unk != nil {
		if id, ok := m.Vocab[*m.Unk]; ok {
			b.unk = id
		}
	}
	for x, c := range charOfByte {
		id, ok := m.Vocab[string(c)]
		if !ok {
			id = noID
		}
		if !ok && b.unk != noID && m.FuseUnk {
			return nil, fmt.Errorf("model: vocab lacks byte %#02x, and fuse_unk is not supported", x)
		}
		b.byteID[x] = id
	}
	for rank, pair := range m.Merges {
		if err := b.addMerge(m.Vocab, uint32(rank), pair); err != nil {
			return nil, err
		}
	}
	if m.IgnoreMerges {
		b.words = wordsOf(m.Vocab)
	}
	return b, nil
}

func (m *bpe) addMerge(vocab map[string]uint32, rank uint32, pair pairJSON) error {
	left, ok1 := vocab[pair[0]]
	right, ok2 := vocab[pair[1]]
	whole, ok3 := vocab[pair[0]+pair[1]]
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("model: merge %d, %q and %q: one of them or both joined is not in vocab", rank, pair[0], pair[1])
	}
	m.merges[pairKey(left, right)] = merge{rank, whole}
	return nil
}

// wordsOf is the vocabulary by bytes.
func wordsOf(vocab map[string]uint32) map[string]uint32 {
	words := make(map[string]uint32, len(vocab))
	for token, id := range vocab {
		if b, mapped := bytesOf(token); mapped {
			words[string(b)] = id
		}
	}
	return words
}

// typed reads the type of a step and those of a Sequence's steps under key.
func typed(raw json.RawMessage, key string) (steps []map[string]json.RawMessage, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var step map[string]json.RawMessage
	if err := json.Unmarshal(raw, &step); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if typeOf(step) != "Sequence" {
		return []map[string]json.RawMessage{step}, nil
	}
	if err := json.Unmarshal(step[key], &steps); err != nil {
		return nil, fmt.Errorf("reading %s of Sequence: %w", key, err)
	}
	return steps, nil
}

func typeOf(step map[string]json.RawMessage) string {
	var s string
	_ = json.Unmarshal(step["type"], &s) // another JSON type is no supported one
	return s
}

// parseNormalizer reads the steps that texts go through before splitting.
func parseNormalizer(raw json.RawMessage) (chosen []norm.Form, err error) {
	steps, err := typed(raw, "normalizers")
	if err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	forms := map[string]norm.Form{"NFC": norm.NFC, "NFD": norm.NFD, "NFKC": norm.NFKC, "NFKD": norm.NFKD}
	for _, step := range steps {
		form, ok := forms[typeOf(step)]
		if !ok {
			return nil, fmt.Errorf("normalizer: type %q is not supported; supported are NFC, NFD, NFKC and NFKD", typeOf(step))
		}
		chosen = append(chosen, form)
	}
	return chosen, nil
}

// normalizer brings a text into one normal form after the other.
func normalizer(forms []norm.Form) func(string) string {
	return func(s string) string {
		for _, form := range forms {
			s = form.String(s)
		}
		return s
	}
}

// checkDecoder takes ByteLevel only.
func checkDecoder(raw json.RawMessage) error {
	steps, err := typed(raw, "decoders")
	if err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	if len(steps) != 1 || typeOf(steps[0]) != "ByteLevel" {
		var types []string
		for _, step := range steps {
			types = append(types, typeOf(step))
		}
		return fmt.Errorf("decoder: %q is not supported; only ByteLevel is", types)
	}
	return nil
}

// frame is what a post_processor puts around a single text.
type frame struct{ before, after []uint32 }

// parseFrame reads TemplateProcessing; ByteLevel changes no ids. It is nil
// where no template is given.
func parseFrame(raw json.RawMessage) (*frame, error) {
	steps, err := typed(raw, "processors")
	if err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	var f *frame
	for _, step := range steps {
		switch kind := typeOf(step); {
		case kind == "ByteLevel":
		case kind == "TemplateProcessing" && f == nil:
			if f, err = parseTemplateProcessing(step); err != nil {
				return nil, fmt.Errorf("post_processor: TemplateProcessing: %w", err)
			}
		default:
			return nil, fmt.Errorf("post_processor: type %q is not supported here; supported are one TemplateProcessing and ByteLevel", kind)
		}
	}
	return f, nil
}

func parseTemplateProcessing(step map[string]json.RawMessage) (*frame, error) {
	var single []struct {
		SpecialToken *struct{ ID string }
		Sequence     *struct{ ID string }
	}
	var tokens map[string]struct {
		IDs []uint32 `json:"ids"`
	}
	if err := json.Unmarshal(step["single"], &single); err != nil {
		return nil, fmt.Errorf("reading single: %w", err)
	}
	if err := json.Unmarshal(step["special_tokens"], &tokens); err != nil {
		return nil, fmt.Errorf("reading special_tokens: %w", err)
	}
	f, side := &frame{}, (*[]uint32)(nil)
	side = &f.before
	for _, part := range single {
		switch {
		case part.Sequence != nil && side == &f.before:
			side = &f.after
		case part.SpecialToken != nil && tokens[part.SpecialToken.ID].IDs != nil:
			*side = append(*side, tokens[part.SpecialToken.ID].IDs...)
		default:
			return nil, fmt.Errorf("single must be special tokens around one sequence")
		}
	}
	if side == &f.before {
		return nil, fmt.Errorf("single holds no sequence")
	}
	return f, nil
}
