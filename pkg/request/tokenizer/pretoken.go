package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/switchyard/switchyard/pkg/request/tokenizer/words"
)

// piece is a part of a text on its way to the model.
type piece struct {
	text  string
	start bool // the text begins with it
}

// stage splits or changes a piece and passes each part on, so that the parts of
// a large text are never all in memory.
type stage func(p piece, next func(piece) error) error

// chain sends a piece through all stages to last.
func chain(stages []stage, last func(piece) error) func(piece) error {
	for i := len(stages) - 1; i >= 0; i-- {
		s, next := stages[i], last
		last = func(p piece) error { return s(p, next) }
	}
	return last
}

// cut splits at the matches of s.
func cut(s words.Splitter, b words.Behavior, invert bool) stage {
	return func(p piece, next func(piece) error) error {
		start := p.start
		return words.Cut(s, b, invert, p.text, func(part string) error {
			err := next(piece{part, start})
			start = false
			return err
		})
	}
}

// isolate makes each match a piece, and what is between them.
func isolate(s words.Splitter) stage { return cut(s, words.Isolated, false) }

func prefixSpace(p piece, next func(piece) error) error {
	if !strings.HasPrefix(p.text, " ") {
		p.text = " " + p.text
	}
	return next(p)
}

// preTokenizer is what tokenizer.json's pre_tokenizer says.
type preTokenizer struct {
	stages    []stage
	removes   bool // parts of a text are left out
	byteLevel bool // the model's symbols are bytes
}

// parseStages reads a pre_tokenizer. ByteLevel must be the last step.
func parseStages(raw json.RawMessage) (p preTokenizer, err error) {
	steps, err := readSteps(raw, "pretokenizers")
	if err != nil {
		return p, fmt.Errorf("pre_tokenizer: %w", err)
	}
	for i := range steps {
		s := &steps[i]
		if s.Type == "ByteLevel" {
			if i < len(steps)-1 {
				return p, fmt.Errorf("pre_tokenizer: ByteLevel as step %d of %d is not supported: it must be the last step", i+1, len(steps))
			}
			p.byteLevel = true
		}
		built, removes, err := s.stages()
		if err != nil {
			return p, fmt.Errorf("pre_tokenizer: %w", err)
		}
		p.stages, p.removes = append(p.stages, built...), p.removes || removes
	}
	return p, nil
}

// stages are those of one step; removes says that they leave parts of a text out.
func (s *stepJSON) stages() (list []stage, removes bool, err error) {
	one := func(s words.Splitter, b words.Behavior, invert bool) ([]stage, bool, error) {
		return []stage{cut(s, b, invert)}, b == words.Removed, b.Check()
	}
	switch s.Type {
	case "Split":
		list, err = s.buildSplit()
		return list, s.Behavior == string(words.Removed), err
	case "Digits":
		return one(words.Of(words.Number, !s.Individual), words.Isolated, false)
	case "Punctuation":
		behavior := words.Behavior(s.Behavior)
		if behavior == "" {
			behavior = words.Isolated
		}
		return one(words.Of(words.BertMark, false), behavior, false)
	case "WhitespaceSplit":
		return one(words.Of(words.Space, true), words.Removed, false)
	case "Whitespace":
		return []stage{cut(words.Of(words.Space, true), words.Removed, false), isolate(words.Where(wordChar))}, true, nil
	case "BertPreTokenizer":
		return []stage{cut(words.Of(words.Space, true), words.Removed, false), isolate(words.Of(words.BertMark, false))}, true, nil
	case "Metaspace":
		list, err = s.metaspace()
		return list, false, err
	case "ByteLevel":
		return s.byteLevel(), false, nil
	}
	return nil, false, fmt.Errorf("type %q is not supported; supported are Sequence, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, BertPreTokenizer, Metaspace and ByteLevel", s.Type)
}

func (s *stepJSON) byteLevel() (stages []stage) {
	if s.AddPrefixSpace == nil || *s.AddPrefixSpace {
		stages = append(stages, prefixSpace)
	}
	if s.UseRegex == nil || *s.UseRegex {
		gpt2, _ := words.Named("gpt2")
		stages = append(stages, isolate(gpt2))
	}
	return stages
}

func (s *stepJSON) buildSplit() ([]stage, error) {
	behavior := words.Behavior(s.Behavior)
	if err := behavior.Check(); err != nil {
		return nil, fmt.Errorf("a Split's %w", err)
	}
	switch p := s.Pattern; {
	case p.Regex != nil:
		splitter, err := words.Compile(*p.Regex, true)
		if err != nil {
			return nil, fmt.Errorf("a Split: %w", err)
		}
		return []stage{cut(splitter, behavior, s.Invert)}, nil
	case p.String != nil && *p.String != "":
		return []stage{cut(words.Literal(*p.String), behavior, s.Invert)}, nil
	}
	return nil, errors.New("a Split's pattern is neither a Regex nor a String")
}

// metaspace makes blanks visible, puts one before the text, and splits before
// each of them.
func (s *stepJSON) metaspace() ([]stage, error) {
	if s.Replacement == "" {
		return nil, errors.New("a Metaspace has no replacement")
	}
	scheme := s.PrependScheme
	if scheme == "" {
		scheme = "always"
	}
	if s.AddPrefixSpace != nil && !*s.AddPrefixSpace {
		scheme = "never"
	}
	if scheme != "always" && scheme != "first" && scheme != "never" {
		return nil, fmt.Errorf("a Metaspace's prepend_scheme %q is not supported", scheme)
	}
	stages := []stage{func(p piece, next func(piece) error) error {
		p.text = strings.ReplaceAll(p.text, " ", s.Replacement)
		if (scheme == "always" || scheme == "first" && p.start) && !strings.HasPrefix(p.text, s.Replacement) {
			p.text = s.Replacement + p.text
		}
		return next(p)
	}}
	if s.Split == nil || *s.Split {
		stages = append(stages, cut(words.Literal(s.Replacement), words.MergedWithNext, false))
	}
	return stages, nil
}
