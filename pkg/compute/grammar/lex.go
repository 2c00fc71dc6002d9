package grammar

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// token is a name ('n'), "::=" ('='), a text ('"'), a class ('['), numbers in braces ('{'), or
// a character that stands for itself.
type token struct {
	kind rune
	text string
	line int
}

// lex cuts a grammar.
func lex(text string) (out []token, err error) {
	line := 1
	for text != "" {
		c, size := utf8.DecodeRuneInString(text)
		switch {
		case c == '\n':
			line++
		case strings.ContainsRune(" \t\r", c):
		case c == '#':
			size = len(text[:lineEnd(text)])
		case strings.HasPrefix(text, "::="):
			size, out = 3, append(out, token{'=', "::=", line})
		case isName(c):
			size = len(text) - len(strings.TrimLeftFunc(text, isName))
			out = append(out, token{'n', text[:size], line})
		case c == '"' || c == '[':
			t, err := delimited(text, c, line)
			if err != nil {
				return nil, err
			}
			size, out = t.size, append(out, t.token)
		case c == '{':
			if size = strings.IndexByte(text, '}') + 1; size == 0 {
				return nil, fmt.Errorf("line %d: a brace is not closed", line)
			}
			out = append(out, token{'{', text[1 : size-1], line})
			line += strings.Count(text[:size], "\n")
		case strings.ContainsRune("()|?*+.", c):
			out = append(out, token{c, string(c), line})
		default:
			return nil, fmt.Errorf("line %d: %q stands for nothing here", line, c)
		}
		text = text[size:]
	}
	return out, nil
}

func lineEnd(text string) int {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return i
	}
	return len(text)
}

func isName(c rune) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

type sized struct {
	token
	size int
}

// delimited reads a text or a class, whose escapes are those of GBNF.
func delimited(text string, open rune, line int) (sized, error) {
	closing := map[rune]byte{'"': '"', '[': ']'}[open]
	end := 1
	for end < len(text) && text[end] != closing && text[end] != '\n' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(text) || text[end] != closing {
		return sized{}, fmt.Errorf("line %d: a %c is not closed on its line", line, open)
	}
	out := sized{token{open, text[:end+1], line}, end + 1}
	if open == '"' {
		inside, err := strconv.Unquote(strings.ReplaceAll(out.text, `\/`, `/`))
		if err != nil {
			return out, fmt.Errorf("line %d: %.40s has an escape that is not known", line, out.text)
		}
		out.text = inside
	}
	return out, nil
}
