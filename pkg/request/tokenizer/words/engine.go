package words

import (
	"fmt"
	"time"

	"github.com/dlclark/regexp2"
)

const (
	// matchTimeout bounds one match, splitTimeout all matches of one text:
	// a backtracking engine must not be stalled by a text that someone sent.
	matchTimeout = 2 * time.Second
	splitTimeout = 10 * time.Second
)

type engine struct{ re *regexp2.Regexp }

// Each fails where the pattern takes too long.
func (e engine) Each(text string, found func(start, end int) error) error {
	begun := time.Now()
	runes, offsets := runesOf(text)
	m, err := e.re.FindRunesMatch(runes)
	for ; err == nil && m != nil; m, err = e.re.FindNextMatch(m) {
		if m.Length > 0 {
			if err := found(offsets[m.Index], offsets[m.Index+m.Length]); err != nil {
				return err
			}
		}
		if time.Since(begun) > splitTimeout {
			return fmt.Errorf("splitting %d bytes of text took more than %v", len(text), splitTimeout)
		}
	}
	if err != nil {
		return fmt.Errorf("splitting %d bytes of text: %w", len(text), err)
	}
	return nil
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
