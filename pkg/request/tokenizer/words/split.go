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

// Cut passes the parts of text on, in order: matches of s and what is between
// them, joined or left out by the behavior. With invert, what is between
// matches counts as the matches.
func Cut(s Splitter, b Behavior, invert bool, text string, next func(part string) error) error {
	p := &parts{text: text, behavior: b, next: next}
	done := 0
	err := s.Each(text, func(start, end int) error {
		if done < start {
			if err := p.add(done, start, invert); err != nil {
				return err
			}
		}
		done = end
		return p.add(start, end, !invert)
	})
	if err == nil && done < len(text) {
		err = p.add(done, len(text), invert)
	}
	if err != nil {
		return err
	}
	return p.flush()
}

// parts joins neighbours; what may still grow is held.
type parts struct {
	text       string
	behavior   Behavior
	next       func(string) error
	start, end int // held; empty if they are equal
	match      bool
}

func (p *parts) add(start, end int, match bool) error {
	if p.behavior == Isolated {
		return p.next(p.text[start:end])
	}
	if p.behavior == Removed {
		if match {
			return nil
		}
		return p.next(p.text[start:end])
	}
	if p.joins(match) {
		p.end, p.match = end, match
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	p.start, p.end, p.match = start, end, match
	return nil
}

// joins says whether a part belongs to the held one.
func (p *parts) joins(match bool) bool {
	if p.start == p.end {
		return false
	}
	switch p.behavior {
	case MergedWithPrevious:
		return match && !p.match
	case MergedWithNext:
		return !match && p.match
	}
	return match == p.match
}

func (p *parts) flush() error {
	if p.start == p.end {
		return nil
	}
	start := p.start
	p.start = p.end
	return p.next(p.text[start:p.end])
}
