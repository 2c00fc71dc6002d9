package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

const (
	// matchTimeout bounds one match, splitTimeout all matches of one text:
	// a backtracking engine must not be stalled by a text that someone sent.
	matchTimeout = 2 * time.Second
	splitTimeout = 10 * time.Second
)

// stage splits a piece of text and passes each part on, so that the parts of a
// large text are never all in memory.
type stage func(piece string, next func(part string) error) error

// split passes a piece of text through stages.
func split(stages []stage, piece string, next func(part string) error) error {
	if len(stages) == 0 {
		return next(piece)
	}
	return stages[0](piece, func(part string) error { return split(stages[1:], part, next) })
}

// stageJSON is any pre_tokenizer of tokenizer.json.
type stageJSON struct {
	Type           string            `json:"type"`
	Pretokenizers  []json.RawMessage `json:"pretokenizers"`
	Pattern        patternJSON       `json:"pattern"`
	Behavior       string            `json:"behavior"`
	Invert         bool              `json:"invert"`
	AddPrefixSpace *bool             `json:"add_prefix_space"`
	UseRegex       *bool             `json:"use_regex"`
	Individual     bool              `json:"individual_digits"`
}

type patternJSON struct {
	Regex  *string `json:"Regex"`
	String *string `json:"String"`
}

// parseStages reads a pre_tokenizer into a list of stages, and whether they
// leave parts of a text out. The last one must be ByteLevel: without it the
// vocabulary is not one of bytes.
func parseStages(raw json.RawMessage) (stages []stage, removes bool, err error) {
	flat, err := flatten(raw, 0)
	if err != nil {
		return nil, false, err
	}
	for i, s := range flat {
		if last := i == len(flat)-1; last != (s.Type == "ByteLevel") {
			return nil, false, fmt.Errorf("pre_tokenizer: %q as step %d of %d is not supported: ByteLevel must be the last step and only that", s.Type, i+1, len(flat))
		}
		built, err := s.build()
		if err != nil {
			return nil, false, fmt.Errorf("pre_tokenizer: %w", err)
		}
		stages = append(stages, built...)
		removes = removes || s.Type == "Split" && s.Behavior == "Removed"
	}
	if len(stages) == 0 && len(flat) == 0 {
		return nil, false, fmt.Errorf("pre_tokenizer: none is given, but only byte-level models (ByteLevel) are supported")
	}
	return stages, removes, nil
}

// flatten unrolls nested Sequences.
func flatten(raw json.RawMessage, depth int) ([]stageJSON, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var s stageJSON
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: reading JSON: %w", err)
	}
	if s.Type != "Sequence" {
		return []stageJSON{s}, nil
	}
	if depth > 8 {
		return nil, fmt.Errorf("pre_tokenizer: Sequences are nested more than 8 deep")
	}
	var out []stageJSON
	for _, child := range s.Pretokenizers {
		steps, err := flatten(child, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, steps...)
	}
	return out, nil
}

func (s *stageJSON) build() ([]stage, error) {
	switch s.Type {
	case "Split":
		return s.buildSplit()
	case "Digits":
		return []stage{splitDigits(s.Individual)}, nil
	case "ByteLevel":
		var stages []stage
		if s.AddPrefixSpace == nil || *s.AddPrefixSpace {
			stages = append(stages, prefixSpace)
		}
		if s.UseRegex == nil || *s.UseRegex {
			stages = append(stages, scanWith(scanGPT2))
		}
		return stages, nil
	}
	return nil, fmt.Errorf("type %q is not supported; supported are Sequence, Split, Digits and ByteLevel", s.Type)
}

func (s *stageJSON) buildSplit() ([]stage, error) {
	keepMatch, keepRest := true, true
	switch s.Behavior {
	case "Isolated":
	case "Removed":
		keepMatch, keepRest = s.Invert, !s.Invert
	default:
		return nil, fmt.Errorf("a Split's behavior %q is not supported; supported are Isolated and Removed", s.Behavior)
	}
	switch p := s.Pattern; {
	case p.Regex != nil:
		if scan := scanners[*p.Regex]; scan != nil && keepMatch { // nothing is left between matches
			return []stage{scanWith(scan)}, nil
		}
		re, err := regexp2.Compile(*p.Regex, regexp2.None)
		if err != nil {
			return nil, fmt.Errorf("compiling a Split's pattern %q: %w", *p.Regex, err)
		}
		re.MatchTimeout = matchTimeout
		return []stage{splitRegex(re, keepMatch, keepRest)}, nil
	case p.String != nil && *p.String != "":
		re := regexp.MustCompile(regexp.QuoteMeta(*p.String))
		return []stage{splitLiteral(re, keepMatch, keepRest)}, nil
	}
	return nil, errors.New("a Split's pattern is neither a Regex nor a String")
}

func prefixSpace(piece string, next func(string) error) error {
	if !strings.HasPrefix(piece, " ") {
		piece = " " + piece
	}
	return next(piece)
}

// scanWith cuts a piece into parts whose lengths scan tells.
func scanWith(scan func(string) int) stage {
	return func(piece string, next func(string) error) error {
		for piece != "" {
			n := scan(piece)
			if err := next(piece[:n]); err != nil {
				return err
			}
			piece = piece[n:]
		}
		return nil
	}
}

func splitDigits(individual bool) stage {
	limit := unlimited
	if individual {
		limit = 1
	}
	return scanWith(func(piece string) int {
		if n := runOf(piece, unicode.IsNumber, limit); n > 0 {
			return n
		}
		return runOf(piece, func(r rune) bool { return !unicode.IsNumber(r) }, unlimited)
	})
}

// runOf is the length of the run of characters that s begins with and that is
// takes, at most limit characters.
func runOf(s string, is func(rune) bool, limit int) int {
	at := 0
	for ; limit > 0 && at < len(s); limit-- {
		r, n := utf8.DecodeRuneInString(s[at:])
		if !is(r) {
			break
		}
		at += n
	}
	return at
}

// cutter passes on what lies in and between the matches of one piece.
type cutter struct {
	next                func(string) error
	piece               string
	done                int
	keepMatch, keepRest bool
}

func (c *cutter) match(start, end int) error {
	if c.keepRest && c.done < start {
		if err := c.next(c.piece[c.done:start]); err != nil {
			return err
		}
	}
	c.done = end
	if c.keepMatch && start < end {
		return c.next(c.piece[start:end])
	}
	return nil
}

func (c *cutter) finish() error {
	if c.keepRest && c.done < len(c.piece) {
		return c.next(c.piece[c.done:])
	}
	return nil
}

func splitLiteral(re *regexp.Regexp, keepMatch, keepRest bool) stage {
	return func(piece string, next func(string) error) error {
		c := cutter{next: next, piece: piece, keepMatch: keepMatch, keepRest: keepRest}
		for _, m := range re.FindAllStringIndex(piece, -1) {
			if err := c.match(m[0], m[1]); err != nil {
				return err
			}
		}
		return c.finish()
	}
}

func splitRegex(re *regexp2.Regexp, keepMatch, keepRest bool) stage {
	return func(piece string, next func(string) error) error {
		begun := time.Now()
		runes, offsets := runesOf(piece)
		c := cutter{next: next, piece: piece, keepMatch: keepMatch, keepRest: keepRest}
		m, err := re.FindRunesMatch(runes)
		for ; err == nil && m != nil; m, err = re.FindNextMatch(m) {
			if err := c.match(offsets[m.Index], offsets[m.Index+m.Length]); err != nil {
				return err
			}
			if time.Since(begun) > splitTimeout {
				return fmt.Errorf("splitting %d bytes of text took more than %v", len(piece), splitTimeout)
			}
		}
		if err != nil {
			return fmt.Errorf("splitting %d bytes of text: %w", len(piece), err)
		}
		return c.finish()
	}
}

// runesOf returns the characters of s and each one's byte offset, with the
// length of s at the end. A byte that is not UTF-8 is a character of its own.
func runesOf(s string) (runes []rune, offsets []int) {
	runes, offsets = make([]rune, 0, len(s)), make([]int, 0, len(s)+1)
	for i, r := range s {
		runes, offsets = append(runes, r), append(offsets, i)
	}
	return runes, append(offsets, len(s))
}
