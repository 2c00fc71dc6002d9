package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrNone says that a folder has no tokenizer.
var ErrNone = errors.New("no tokenizer is there (tokenizer.json, tokenizer.model, tiktoken.model, vocab.json with merges.txt, or vocab.txt)")

// Files returns a file of a model's folder.
type Files func(name string) ([]byte, bool)

// kinds are the files that a folder's tokenizer is made of, the first one that
// is there counts.
var kinds = []struct {
	name string
	open func(data []byte, files Files, pattern string) (*Tokenizer, json.RawMessage, error)
}{
	{"tokenizer.json", openJSON},
	{"tokenizer.model", openModel},
	{"tiktoken.model", openModel},
	{"qwen.tiktoken", openModel},
	{"vocab.json", openGPT2},
	{"vocab.txt", openVocabTxt},
}

// Open reads a model's tokenizer and, where they are there, tokenizer_config.json
// and config.json, which say how a prompt begins. The error names the file and what
// in it is wrong or not supported; it is ErrNone where there is none.
func Open(files func(name string) ([]byte, bool)) (*Tokenizer, error) { return open(files, "") }

func open(files Files, pattern string) (*Tokenizer, error) {
	for _, k := range kinds {
		data, ok := files(k.name)
		if !ok {
			continue
		}
		t, postProcessor, err := k.open(data, files, pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		if err := t.readConfig(files, postProcessor, k.name != "tokenizer.json"); err != nil {
			return nil, err
		}
		return t, nil
	}
	return nil, ErrNone
}

func openJSON(data []byte, _ Files, pattern string) (*Tokenizer, json.RawMessage, error) {
	if pattern != "" {
		return nil, nil, errors.New("a pattern is given, but the file has its own")
	}
	t, file, err := parseJSON(data)
	if err != nil {
		return nil, nil, err
	}
	return t, file.PostProcessor, nil
}

// openModel reads a SentencePiece model or tiktoken's ranks: both are published
// as tokenizer.model.
func openModel(data []byte, _ Files, pattern string) (t *Tokenizer, _ json.RawMessage, err error) {
	if looksLikeRanks(data) {
		t, err = openRanks(data, pattern)
		return t, nil, err
	}
	if pattern != "" {
		return nil, nil, errors.New("a pattern is given, but a SentencePiece model has none")
	}
	t, err = openSP(data)
	return t, nil, err
}
