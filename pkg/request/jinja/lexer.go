package jinja

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	dataToken          kind = iota // text between tags
	variableBeginToken             // {{
	variableEndToken
	blockBeginToken // {%
	blockEndToken
	nameToken
	textToken // a string, unescaped
	integerToken
	floatToken
	operatorToken
	endToken // of the template
)

// token is a part of a template. value is the text of it, unescaped.
type token struct {
	kind  kind
	value string
	line  int
}

func (t token) is(k kind, value string) bool { return t.kind == k && t.value == value }

func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end of the template"
	case blockEndToken, variableEndToken:
		return "the end of the tag"
	case dataToken:
		return "text"
	}
	return fmt.Sprintf("%q", t.value)
}

// lexer cuts a template into tokens as jinja2's lexer.py does with trim_blocks
// and lstrip_blocks.
type lexer struct {
	source    string
	at, line  int
	lineStart bool // the last match ended with a newline
	tokens    []token
}

// newLexer has every line end with \n, but for the last, which loses its end.
func newLexer(source string) *lexer {
	source = strings.TrimSuffix(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source), "\n")
	return &lexer{source: source, line: 1, lineStart: true}
}

// all returns the tokens of a template; the last one is end.
func (l *lexer) all() []token {
	for l.at < len(l.source) {
		l.root()
	}
	l.emit(endToken, "")
	return l.tokens
}

func (l *lexer) emit(k kind, value string) {
	l.tokens = append(l.tokens, token{k, value, l.line})
}

func (l *lexer) skip(n int) {
	passed := l.source[l.at : l.at+n]
	l.line += strings.Count(passed, "\n")
	l.lineStart = strings.HasSuffix(passed, "\n")
	l.at += n
}

var rawBegin = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(-%\}\s*|%\})`)

// root takes the text up to the next tag, and the tag.
func (l *lexer) root() {
	rest := l.source[l.at:]
	n := nextTag(rest)
	if n < 0 {
		l.emit(dataToken, rest)
		l.skip(len(rest))
		return
	}
	opening := rest[n : n+2]
	sign := signAt(rest, n+2)
	l.data(rest[:n], sign, opening == "{{")
	switch opening {
	case "{#":
		l.skip(2)
		l.comment()
		return
	case "{{":
		l.skip(2 + len(sign))
		l.tag(variableBeginToken, variableEndToken)
		return
	}
	if m := rawBegin.FindString(rest[n:]); m != "" {
		l.skip(len(m))
		l.raw()
		return
	}
	l.skip(2 + len(sign))
	l.tag(blockBeginToken, blockEndToken)
}

func nextTag(s string) int {
	for at := 0; ; at++ {
		n := strings.IndexByte(s[at:], '{')
		if n < 0 || at+n+1 >= len(s) {
			return -1
		}
		at += n
		if strings.IndexByte("{%#", s[at+1]) >= 0 {
			return at
		}
	}
}

// signAt returns the sign for white space at s[i:]: "-", "+" or "".
func signAt(s string, i int) string {
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		return s[i : i+1]
	}
	return ""
}

// data emits the text before a tag without the white space that the tag's sign,
// or lstrip_blocks, takes from it, and passes it.
func (l *lexer) data(s, sign string, variable bool) {
	kept := s
	switch {
	case sign == "-":
		kept = strings.TrimRightFunc(s, isSpace)
	case sign == "" && !variable:
		line := strings.LastIndexByte(s, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimLeftFunc(s[line:], isSpace) == "" {
			kept = s[:line]
		}
	}
	if kept != "" {
		l.emit(dataToken, kept)
	}
	if s != "" {
		l.skip(len(s))
	}
}

// closing returns the length of a tag's end at the lexer's place, with the white space
// that it takes; 0 if it does not end here. Ends but a variable's take a newline.
func (l *lexer) closing(mark string) int {
	rest := l.source[l.at:]
	sign := signAt(rest, 0)
	if !strings.HasPrefix(rest[len(sign):], mark) || sign == "+" && mark == "}}" {
		return 0
	}
	n := len(sign) + len(mark)
	switch {
	case sign == "-":
		n = len(rest) - len(strings.TrimLeftFunc(rest[n:], isSpace))
	case sign == "" && mark != "}}" && strings.HasPrefix(rest[n:], "\n"):
		n++
	}
	return n
}

func (l *lexer) comment() {
	for l.at < len(l.source) {
		if n := l.closing("#}"); n > 0 {
			l.skip(n)
			return
		}
		l.skip(1)
	}
	panic(failf("a comment has no end: #} is missing"))
}

var endRaw = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(\+%\}|-%\}\s*|%\}\n?)`)

// raw takes what stands between {% raw %} and {% endraw %} as it is.
func (l *lexer) raw() {
	rest := l.source[l.at:]
	m := endRaw.FindStringSubmatchIndex(rest)
	if m == nil {
		panic(failf("{%% raw %%} has no end: {%% endraw %%} is missing"))
	}
	l.data(rest[:m[0]], rest[m[2]:m[3]], false)
	l.skip(m[1] - m[0])
}

// tag takes what stands within a tag up to its end.
func (l *lexer) tag(begin, finish kind) {
	mark := map[kind]string{variableEndToken: "}}", blockEndToken: "%}"}[finish]
	l.emit(begin, "")
	var open []byte // brackets that are not closed
	for l.at < len(l.source) {
		if n := l.closing(mark); n > 0 && len(open) == 0 {
			l.emit(finish, "")
			l.skip(n)
			return
		}
		l.inTag(&open)
	}
	panic(failf("a tag has no end: %s is missing", mark))
}

func (l *lexer) inTag(open *[]byte) {
	rest := l.source[l.at:]
	c, n := utf8.DecodeRuneInString(rest)
	switch {
	case isSpace(c):
		l.skip(n)
		return
	case c == '\'' || c == '"':
		l.quoted(byte(c))
		return
	case c >= '0' && c <= '9':
		l.number()
		return
	case c == '_' || unicode.IsLetter(c):
		n = len(rest) - len(strings.TrimLeftFunc(rest, wordRune))
		l.emit(nameToken, rest[:n])
		l.skip(n)
		return
	}
	l.operator(open)
}

// isSpace returns what Python takes for white space.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func wordRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// operators, those of two bytes first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

func (l *lexer) operator(open *[]byte) {
	rest := l.source[l.at:]
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		balance(open, op[0])
		l.emit(operatorToken, op)
		l.skip(len(op))
		return
	}
	c, _ := utf8.DecodeRuneInString(rest)
	panic(failf("unexpected character %q", c))
}

func balance(open *[]byte, op byte) {
	switch op {
	case '(':
		*open = append(*open, ')')
	case '[', '{':
		*open = append(*open, op+2)
	case ')', ']', '}':
		n := len(*open)
		if n == 0 || (*open)[n-1] != op {
			panic(failf("unexpected %q", op))
		}
		*open = (*open)[:n-1]
	}
	if len(*open) > maxNesting {
		panic(failf("brackets are nested more than %d deep", maxNesting))
	}
}
