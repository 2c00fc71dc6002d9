// Package jsontext finds what is JSON but no text.
package jsontext

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// CheckSurrogates finds an escape that is half of a character, such as \ud800
// without \udc00 behind it: Go's decoder makes U+FFFD of it, which nobody sent.
func CheckSurrogates(raw []byte) error {
	for at := 0; ; {
		n := bytes.IndexByte(raw[at:], '\\')
		if n < 0 {
			return nil
		}
		at += n
		r := escaped(raw[at:])
		switch {
		case !utf16.IsSurrogate(r):
			at = min(at+2, len(raw)) // of what is escaped, only a second backslash matters
		case utf16.DecodeRune(r, escaped(raw[at+escapeLen:])) == utf16Replacement:
			return &SurrogateError{At: at, Escape: string(raw[at : at+escapeLen])}
		default:
			at += 2 * escapeLen
		}
	}
}

// SurrogateError is half of a character.
type SurrogateError struct {
	At     int // byte
	Escape string
}

func (e *SurrogateError) Error() string {
	return "byte " + strconv.Itoa(e.At) + ": " + e.Escape + " is half of a surrogate pair, which is no character: leave it out, or send both halves"
}

const (
	escapeLen        = len(`\ud800`)
	utf16Replacement = '\uFFFD'
)

// escaped returns the code of the escape \uXXXX at the beginning of raw; 0 if there is none.
func escaped(raw []byte) rune {
	if len(raw) < escapeLen || raw[0] != '\\' || raw[1] != 'u' {
		return 0
	}
	code, err := strconv.ParseUint(string(raw[2:escapeLen]), 16, 32)
	if err != nil {
		return 0
	}
	return rune(code)
}
