package jinja

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	floatLiteral   = regexp.MustCompile(`^(\d+_)*\d+((\.(\d+_)*\d+)?[eE][+-]?(\d+_)*\d+|\.(\d+_)*\d+)`)
	integerLiteral = regexp.MustCompile(`^(0[bB](_?[01])+|0[oO](_?[0-7])+|0[xX](_?[0-9a-fA-F])+|[1-9](_?\d)*|0(_?0)*)`)
)

// number takes an integer or a float. A float after a dot is none: a.0.1 is an
// item of an item.
func (l *lexer) number() {
	rest := l.source[l.at:]
	k, m := floatToken, floatLiteral.FindString(rest)
	if m == "" || l.at > 0 && l.source[l.at-1] == '.' {
		k, m = integerToken, integerLiteral.FindString(rest)
	}
	l.emit(k, strings.ReplaceAll(m, "_", ""))
	l.skip(len(m))
}

func (l *lexer) quoted(quote byte) {
	rest := l.source[l.at:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			s := unescape(rest[1:i])
			l.emit(textToken, s)
			l.skip(i + 1)
			return
		}
	}
	panic(failf("a string has no end"))
}

var simpleEscapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape reads the escapes of Python's strings. Unknown ones stay as they are.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			i++
			continue
		}
		n := escape(&b, s[i+1:])
		i += 1 + n
	}
	return b.String()
}

// escape writes what stands after a backslash and returns its length.
func escape(b *strings.Builder, s string) int {
	if simple, ok := simpleEscapes[s[0]]; ok {
		b.WriteString(simple)
		return 1
	}
	digits, base := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[0]], 16
	at := 1
	if s[0] >= '0' && s[0] <= '7' {
		at, base = 0, 8
		for digits < min(3, len(s)) && s[digits] >= '0' && s[digits] <= '7' {
			digits++
		}
	}
	if digits == 0 {
		b.WriteByte('\\')
		return 0
	}
	if len(s) < at+digits {
		panic(failf("the escape \\%s is cut short", s))
	}
	code, err := strconv.ParseUint(s[at:at+digits], base, 32)
	if err != nil || code > utf8.MaxRune {
		panic(failf("the escape \\%s is no character", s[:at+digits]))
	}
	b.WriteRune(rune(code))
	return at + digits
}
