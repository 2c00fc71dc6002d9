package words

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

const unlimited = int(^uint(0) >> 1)

// parseRun reads a pattern that is one run of characters; ok is false for all
// others.
func parseRun(pattern string) (p *runPattern, ok bool) {
	first, rest, ok := parseSet(pattern)
	if !ok {
		return nil, false
	}
	p = &runPattern{body: first}
	p.scanner = p.scan
	if after, found := strings.CutPrefix(rest, "?"); found {
		p.lead = first
		if p.body, rest, ok = parseSet(after); !ok {
			return nil, false
		}
	}
	if rest, ok = p.parseCount(rest); !ok {
		return nil, false
	}
	if rest == "$" && p.lead == nil && p.min == 1 && p.max == unlimited {
		p.atEnd, rest = true, ""
	}
	return p, rest == ""
}

// parseCount reads how often the class of characters stands.
func (p *runPattern) parseCount(s string) (rest string, ok bool) {
	switch {
	case strings.HasPrefix(s, "+"):
		p.min, p.max = 1, unlimited
		return s[1:], true
	case !strings.HasPrefix(s, "{"):
		p.min, p.max = 1, 1
		return s, true
	}
	inner, rest, ok := strings.Cut(s[1:], "}")
	low, high, _ := strings.Cut(inner, ",")
	var err1, err2 error
	p.min, err1 = strconv.Atoi(low)
	p.max, err2 = strconv.Atoi(high)
	return rest, ok && err1 == nil && err2 == nil && p.min > 0 && p.min <= p.max && p.max < 1000
}

var escapes = map[byte]rune{'r': '\r', 'n': '\n', 't': '\t', '\\': '\\', '[': '[', ']': ']', '-': '-', '^': '^', '/': '/', '.': '.'}

var categories = map[string]Class{"{L}": Letter, "{M}": Mark, "{N}": Number, "{P}": Punct, "{S}": Symbol, "{Han}": Han}

// parseSet reads a class of characters that s begins with: [...], \s or \p{X}.
func parseSet(s string) (c *set, rest string, ok bool) {
	c = &set{}
	if !strings.HasPrefix(s, "[") {
		if !strings.HasPrefix(s, `\`) {
			return nil, "", false
		}
		rest, ok = c.parseKind(s[1:])
		c.finish()
		return c, rest, ok
	}
	s = s[1:]
	if s, c.negate = strings.CutPrefix(s, "^"); c.negate && s == "" {
		return nil, "", false
	}
	for s != "" && s[0] != ']' {
		if s, ok = c.parseItem(s); !ok {
			return nil, "", false
		}
	}
	if s == "" || len(c.ranges) == 0 && c.kinds == 0 {
		return nil, "", false
	}
	c.finish()
	return c, s[1:], true
}

// parseKind reads s or p{X}, what stands after a backslash.
func (s *set) parseKind(text string) (rest string, ok bool) {
	if after, found := strings.CutPrefix(text, "s"); found {
		s.kinds |= Space
		return after, true
	}
	end := strings.IndexByte(text, '}')
	if !strings.HasPrefix(text, "p{") || end < 0 {
		return "", false
	}
	kind, ok := categories[text[1:end+1]]
	s.kinds |= kind
	return text[end+1:], ok
}

// parseItem reads a character, a range or a kind within [...].
func (s *set) parseItem(text string) (rest string, ok bool) {
	if len(text) > 1 && text[0] == '\\' && (text[1] == 's' || text[1] == 'p') {
		return s.parseKind(text[1:])
	}
	low, text, ok := parseChar(text)
	if !ok {
		return "", false
	}
	high := low
	if len(text) > 1 && text[0] == '-' && text[1] != ']' {
		if high, text, ok = parseChar(text[1:]); !ok || high < low {
			return "", false
		}
	}
	s.ranges = append(s.ranges, [2]rune{low, high})
	return text, true
}

// parseChar reads one character. Those that begin something else in some
// dialect are left to the engine.
func parseChar(s string) (r rune, rest string, ok bool) {
	if s == "" {
		return 0, "", false
	}
	if s[0] == '\\' {
		if len(s) < 2 {
			return 0, "", false
		}
		r, ok = escapes[s[1]]
		return r, s[2:], ok
	}
	r, n := utf8.DecodeRuneInString(s)
	ok = r != '[' && r != '&' && r != utf8.RuneError
	return r, s[n:], ok
}
