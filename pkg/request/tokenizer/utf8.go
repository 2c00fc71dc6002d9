package tokenizer

import (
	"strings"
	"unicode/utf8"
)

const replacement = "\uFFFD"

// charLen looks at the first character of b, which is not empty. It returns
// how many bytes it takes; valid says whether they are a character or an error
// to be shown as one U+FFFD (the longest run of bytes that could have begun a
// character, as Unicode 3.9 recommends and Rust's from_utf8_lossy does); more
// says that b ends before this is decided.
func charLen(b []byte) (n int, valid, more bool) {
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return n, true, false
	}
	need, low, high := leadByte(b[0])
	if need == 0 {
		return 1, false, false
	}
	for i := 1; i < need; i++ {
		if i == len(b) {
			return i, false, true
		}
		if b[i] < low || b[i] > high {
			return i, false, false
		}
		low, high = 0x80, 0xbf
	}
	return need, true, false
}

// leadByte returns how long a character is that begins with c, 0 if none does,
// and the bounds of its second byte (Unicode table 3-7).
func leadByte(c byte) (need int, low, high byte) {
	switch {
	case c >= 0xc2 && c <= 0xdf:
		return 2, 0x80, 0xbf
	case c == 0xe0:
		return 3, 0xa0, 0xbf
	case c == 0xed:
		return 3, 0x80, 0x9f
	case c >= 0xe1 && c <= 0xef:
		return 3, 0x80, 0xbf
	case c == 0xf0:
		return 4, 0x90, 0xbf
	case c >= 0xf1 && c <= 0xf3:
		return 4, 0x80, 0xbf
	case c == 0xf4:
		return 4, 0x80, 0x8f
	}
	return 0, 0, 0
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
