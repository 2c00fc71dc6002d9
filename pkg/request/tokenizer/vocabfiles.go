package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// openGPT2 reads vocab.json and merges.txt: byte-level BPE with GPT-2's pattern.
func openGPT2(data []byte, files Files, pattern string) (*Tokenizer, json.RawMessage, error) {
	merges, ok := files("merges.txt")
	if !ok {
		return nil, nil, errors.New("merges.txt is not beside it")
	}
	model := modelJSON{Type: "BPE"}
	if err := json.Unmarshal(data, &model.Vocab); err != nil {
		return nil, nil, fmt.Errorf("reading JSON: %w", err)
	}
	var err error
	if model.Merges, err = parseMerges(merges); err != nil {
		return nil, nil, fmt.Errorf("merges.txt: %w", err)
	}
	if pattern == "" {
		pattern = "gpt2"
	}
	splitter, err := patternSplitter(pattern, 0)
	if err != nil {
		return nil, nil, err
	}
	t := newTokenizer()
	t.stages = []stage{isolate(splitter)}
	if t.model, err = model.build(true); err != nil {
		return nil, nil, err
	}
	file := &fileJSON{Model: model, Decoder: json.RawMessage(`{"type":"ByteLevel"}`)}
	if id, ok := model.Vocab[endOfText]; ok {
		file.AddedTokens = specials(id, endOfText)
	}
	return t, nil, t.fillFromJSON(file, true)
}

const endOfText = "<|endoftext|>"

// parseMerges reads one pair a line; a first line that begins with #version is
// none.
func parseMerges(data []byte) (pairs []pairJSON, err error) {
	number := 0
	for line := range bytes.Lines(data) {
		text := strings.TrimRight(string(line), "\r\n")
		if number++; text == "" || number == 1 && strings.HasPrefix(text, "#version") {
			continue
		}
		parts := strings.Split(text, " ")
		if len(parts) != 2 {
			return nil, fmt.Errorf("line %d, %q, is not two symbols", number, text)
		}
		pairs = append(pairs, pairJSON{parts[0], parts[1]})
	}
	return pairs, nil
}

// openVocabTxt reads BERT's vocab.txt, one token a line: WordPiece. Whether
// letters become small is do_lower_case of tokenizer_config.json.
func openVocabTxt(data []byte, files Files, pattern string) (*Tokenizer, json.RawMessage, error) {
	if pattern != "" {
		return nil, nil, errors.New("a pattern is given, but BERT's words have none")
	}
	vocab, err := parseVocabTxt(data)
	if err != nil {
		return nil, nil, err
	}
	file, err := bertFile(vocab, files)
	if err != nil {
		return nil, nil, err
	}
	raw, err := json.Marshal(file)
	if err != nil {
		return nil, nil, fmt.Errorf("describing BERT's stages: %w", err)
	}
	t, parsed, err := parseJSON(raw)
	if err != nil {
		return nil, nil, err
	}
	return t, parsed.PostProcessor, nil
}

func parseVocabTxt(data []byte) (map[string]uint32, error) {
	vocab := map[string]uint32{}
	number := uint32(0)
	for line := range bytes.Lines(data) {
		token := strings.TrimRight(string(line), "\r\n")
		if _, ok := vocab[token]; ok {
			return nil, fmt.Errorf("line %d, %q, was there before", number+1, token)
		}
		vocab[token] = number
		number++
	}
	return vocab, nil
}

// bertFile returns the tokenizer.json that says what BERT's code does with a vocab.txt.
func bertFile(vocab map[string]uint32, files Files) (map[string]any, error) {
	var config struct {
		Lowercase *bool `json:"do_lower_case"`
		Accents   *bool `json:"strip_accents"`
		Chinese   *bool `json:"tokenize_chinese_chars"`
	}
	if data, ok := files("tokenizer_config.json"); ok {
		if err := json.Unmarshal(data, &config); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: reading JSON: %w", err)
		}
	}
	added := []addedToken{}
	for _, token := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		if id, ok := vocab[token]; ok {
			added = append(added, addedToken{ID: id, Content: token, Special: true})
		}
	}
	cls, ok1 := vocab["[CLS]"]
	sep, ok2 := vocab["[SEP]"]
	var post any
	if ok1 && ok2 {
		post = map[string]any{"type": "BertProcessing", "cls": []any{"[CLS]", cls}, "sep": []any{"[SEP]", sep}}
	}
	isTrue := func(b *bool) bool { return b == nil || *b }
	return map[string]any{
		"added_tokens":   added,
		"normalizer":     map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": isTrue(config.Chinese), "strip_accents": config.Accents, "lowercase": isTrue(config.Lowercase)},
		"pre_tokenizer":  map[string]any{"type": "BertPreTokenizer"},
		"decoder":        map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"post_processor": post,
		"model":          map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "vocab": vocab},
	}, nil
}
