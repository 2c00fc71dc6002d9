package tokenizer

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// charLen looks at the first character of b, which is not empty. It returns
// how many bytes it takes; valid reports whether they are a character or an error
// to be shown as one U+FFFD (the longest run of bytes that could have begun a
// character, as Unicode 3.9 recommends and Rust's from_utf8_lossy does); more
// says that b ends before this is decided.
func charLen(b []byte) (n int, valid, more bool) {
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n, true, false
	}
	for n < len(b) && !utf8.FullRune(b[:n+1]) {
		n++
	}
	return max(n, 1), false, n == len(b)
}

// decided turns the longest prefix of b whose characters are decided into
// text; rest is what may still become a character, at most three bytes. With
// bytewise, each byte that is not UTF-8 becomes one U+FFFD.
func decided(b []byte, bytewise bool) (text string, rest []byte) {
	var out strings.Builder
	for len(b) > 0 {
		n, valid, more := charLen(b)
		switch {
		case more:
			return out.String(), b
		case valid:
			out.Write(b[:n])
		default:
			out.WriteString(replacement)
			if bytewise {
				n = 1
			}
		}
		b = b[n:]
	}
	return out.String(), nil
}

// lossy turns bytes into text with U+FFFD for what is not UTF-8.
func lossy(b []byte, bytewise bool) string {
	text, rest := decided(b, bytewise)
	switch {
	case len(rest) == 0:
	case bytewise:
		text += strings.Repeat(replacement, len(rest))
	default:
		text += replacement
	}
	return text
}
