package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/tokenizer/words"
)

// piece is a part of a text on its way to the model.
type piece struct {
	text  string
	start bool // the text begins with it
}

// stage splits or changes pieces and passes each part on to next, so that the
// parts of a large text are never all in memory.
type stage func(next func(piece) error) func(piece) error

// chain sends pieces through all stages to last. It is for one caller.
func chain(stages []stage, last func(piece) error) func(piece) error {
	for i := len(stages) - 1; i >= 0; i-- {
		last = stages[i](last)
	}
	return last
}

func cut(s words.Splitter, b words.Behavior, invert bool) stage {
	return func(next func(piece) error) func(piece) error {
		start := false
		c := words.NewCutter(s, b, invert, func(part string) error {
			err := next(piece{part, start})
			start = false
			return err
		})
		return func(p piece) error {
			start = p.start
			return c.Cut(p.text)
		}
	}
}

func change(to func(p piece) string) stage {
	return func(next func(piece) error) func(piece) error {
		return func(p piece) error {
			p.text = to(p)
			return next(p)
		}
	}
}

// isolate makes each match a piece, and what is between them.
func isolate(s words.Splitter) stage { return cut(s, words.Isolated, false) }

func prefixSpace(p piece) string {
	if strings.HasPrefix(p.text, " ") {
		return p.text
	}
	return " " + p.text
}

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

// stages returns those of one step; removes says that they leave parts of a text out.
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
		stages = append(stages, change(prefixSpace))
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
	if s.Replacement == "" || len(s.Replacement) > utf8.UTFMax {
		return nil, errors.New("a Metaspace's replacement is not one character")
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
	stages := []stage{change(func(p piece) string {
		text := strings.ReplaceAll(p.text, " ", s.Replacement)
		if (scheme == "always" || scheme == "first" && p.start) && !strings.HasPrefix(text, s.Replacement) {
			text = s.Replacement + text
		}
		return text
	})}
	if s.Split == nil || *s.Split {
		stages = append(stages, cut(words.Literal(s.Replacement), words.MergedWithNext, false))
	}
	return stages, nil
}
