package words

import (
	"fmt"
	"unicode/utf8"
)

// Splitter finds words, or what is between them.
type Splitter interface {
	// Each calls found for each match, from left to right, until it fails.
	// Matches are not empty.
	Each(text string, found func(start, end int) error) error
}

// scanner tells where the match ends that begins at i; i if none does.
type scanner func(s string, i int) int

// Each looks for a match at one character after the other.
func (scan scanner) Each(text string, found func(start, end int) error) error {
	for i := 0; i < len(text); {
		end := scan(text, i)
		if end == i {
			_, n := utf8.DecodeRuneInString(text[i:])
			i += n
			continue
		}
		if err := found(i, end); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// Of matches each character of some kinds; with runs, each run of them.
func Of(kinds Class, runs bool) Splitter {
	t, limit := Classes(), 1
	if runs {
		return scanner(func(s string, i int) int { return t.run(s, i, kinds) })
	}
	return scanner(func(s string, i int) int { return t.upTo(s, i, kinds, limit) })
}

// Where matches each run of characters that is takes.
func Where(is func(rune) bool) Splitter {
	return scanner(func(s string, i int) int {
		for i < len(s) {
			r, n := utf8.DecodeRuneInString(s[i:])
			if !is(r) {
				break
			}
			i += n
		}
		return i
	})
}

// Behavior says what becomes of matches.
type Behavior string

// Behaviors of tokenizer.json.
const (
	Isolated           Behavior = "Isolated"
	Removed            Behavior = "Removed"
	MergedWithPrevious Behavior = "MergedWithPrevious"
	MergedWithNext     Behavior = "MergedWithNext"
	Contiguous         Behavior = "Contiguous"
)

// Check refuses what is none.
func (b Behavior) Check() error {
	switch b {
	case Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous:
		return nil
	}
	return fmt.Errorf("behavior %q is not supported", string(b))
}
