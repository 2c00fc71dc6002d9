package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The patterns below split nearly all published byte-level models. They are
// matched by hand: two orders of magnitude faster than a backtracking engine,
// and in linear time whatever the text. A test compares them with the engine.
const (
	patternGPT2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternQwen2  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// scanners return the length of the pattern's match at the start of a text
// that is not empty. Each pattern matches something there.
var scanners = map[string]func(string) int{
	patternGPT2:   scanGPT2,
	patternQwen2:  func(s string) int { return scanCL100K(s, 1) },
	patternLlama3: func(s string) int { return scanCL100K(s, 3) },
}

type class uint8

const (
	other class = iota
	letter
	digit
	space
)

// classOf is one of \p{L}, \p{N}, \s and the rest.
func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		return asciiClass[r]
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return digit
	case unicode.IsSpace(r):
		return space
	}
	return other
}

var asciiClass = func() (table [utf8.RuneSelf]class) {
	for r := range rune(utf8.RuneSelf) {
		switch {
		case unicode.IsLetter(r):
			table[r] = letter
		case unicode.IsDigit(r):
			table[r] = digit
		case unicode.IsSpace(r):
			table[r] = space
		}
	}
	return table
}()

// first is the class of the first character and its length; other and 0 at the
// end.
func first(s string) (class, int) {
	if s == "" {
		return other, 0
	}
	r, n := utf8.DecodeRuneInString(s)
	return classOf(r), n
}

// run is the length of the run of characters of class c that s begins with, at
// most limit characters.
func run(s string, c class, limit int) int {
	at := 0
	for ; limit > 0; limit-- {
		k, n := first(s[at:])
		if n == 0 || k != c {
			break
		}
		at += n
	}
	return at
}

const unlimited = int(^uint(0) >> 1)

func scanGPT2(s string) int {
	if n := contraction(s, false); n > 0 {
		return n
	}
	body := strings.TrimPrefix(s, " ")
	c, n := first(body)
	if n > 0 && c != space {
		return len(s) - len(body) + run(body, c, unlimited)
	}
	return scanSpace(s, run(s, space, unlimited))
}

// scanCL100K matches the patterns of Qwen2 and Llama 3, which differ in how
// many digits make a word.
func scanCL100K(s string, digits int) int {
	if n := contraction(s, true); n > 0 {
		return n
	}
	c, n := first(s)
	switch {
	case c == letter:
		return run(s, letter, unlimited)
	case c == digit:
		return run(s, digit, digits)
	case s[0] != '\r' && s[0] != '\n':
		if m := run(s[n:], letter, unlimited); m > 0 {
			return n + m
		}
	}
	at := 0
	if s[0] == ' ' {
		at = 1
	}
	if m := run(s[at:], other, unlimited); m > 0 {
		at += m
		return at + len(s[at:]) - len(strings.TrimLeft(s[at:], "\r\n"))
	}
	blank := run(s, space, unlimited)
	if line := strings.LastIndexAny(s[:blank], "\r\n"); line >= 0 {
		return line + 1
	}
	return scanSpace(s, blank)
}

// scanSpace matches \s+(?!\S)|\s+ where s begins with n > 0 bytes of white
// space: all of it at the end of the text, else all but its last character,
// which goes with the word after it.
func scanSpace(s string, n int) int {
	if n == len(s) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(s[:n])
	if n > last {
		return n - last
	}
	return n
}

// contraction is the length of an English ending such as 's or 'll.
func contraction(s string, anyCase bool) int {
	if len(s) < 2 || s[0] != '\'' {
		return 0
	}
	if anyCase {
		if strings.HasPrefix(s[1:], "ſ") { // folds to s
			return 1 + len("ſ")
		}
		s = strings.ToLower(s[:min(len(s), 3)]) // ASCII only matters here
	}
	switch s[1] {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) >= 3 && (s[1:3] == "re" || s[1:3] == "ve" || s[1:3] == "ll") {
		return 3
	}
	return 0
}
