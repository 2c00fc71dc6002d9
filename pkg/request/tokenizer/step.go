package tokenizer

import (
	"encoding/json"
	"fmt"
)

// stepJSON is a normalizer, pre_tokenizer, decoder or post_processor of
// tokenizer.json, with the fields of all of them.
type stepJSON struct {
	Type string `json:"type"`
	raw  json.RawMessage

	Pattern     patternJSON `json:"pattern"`     // Replace, Split
	Content     string      `json:"content"`     // Replace, Strip
	Prepend     string      `json:"prepend"`     // Prepend
	StripLeft   bool        `json:"strip_left"`  // Strip
	StripRight  bool        `json:"strip_right"` // Strip
	Start, Stop int         // Strip of a decoder

	Behavior       string `json:"behavior"` // Split, Punctuation
	Invert         bool   `json:"invert"`
	AddPrefixSpace *bool  `json:"add_prefix_space"` // ByteLevel, Metaspace
	UseRegex       *bool  `json:"use_regex"`
	Individual     bool   `json:"individual_digits"`
	Replacement    string `json:"replacement"` // Metaspace
	PrependScheme  string `json:"prepend_scheme"`
	Split          *bool  `json:"split"`

	Prefix  string `json:"prefix"`  // WordPiece
	Cleanup bool   `json:"cleanup"` // WordPiece
}

// patternJSON is a regular expression, or a text.
type patternJSON struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

const maxNesting = 8

// readSteps reads a step, or those of a Sequence, which stand under key.
func readSteps(raw json.RawMessage, key string) ([]stepJSON, error) { return flatten(raw, key, 0) }

func flatten(raw json.RawMessage, key string, depth int) (steps []stepJSON, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	s := stepJSON{raw: raw}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	if s.Type != "Sequence" {
		return []stepJSON{s}, nil
	}
	if depth > maxNesting {
		return nil, fmt.Errorf("a Sequence is nested more than %d deep", maxNesting)
	}
	var children map[string]json.RawMessage
	var list []json.RawMessage
	if err = json.Unmarshal(raw, &children); err == nil {
		err = json.Unmarshal(children[key], &list)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s of Sequence: %w", key, err)
	}
	for _, child := range list {
		more, err := flatten(child, key, depth+1)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return steps, nil
}
