package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// split is split(sep=None, maxsplit=-1), or from the right.
func (r *run) split(t Text, right bool, a args) value {
	given := a.bind("split", "sep? maxsplit?")
	limit := integer(given[1], -1)
	var parts []Text
	if given[0] == nil || given[0] == (absent{}) {
		parts = r.splitWords(t, right, limit)
	} else {
		parts = r.splitAt(t, given[0], right, limit)
	}
	out := NewList()
	for _, p := range parts {
		out.items = append(out.items, p)
	}
	r.makeItems(4 * len(parts))
	return out
}

// ahead asks for the room of n parts before they are made.
func (r *run) ahead(n, limit int) {
	if limit >= 0 {
		n = min(n, limit)
	}
	r.makeItems(4 * (n + 1))
}

func (r *run) splitAt(t Text, by value, right bool, limit int) (out []Text) {
	sep := texts(by, "")
	if sep.s == "" {
		panic(failf("the separator is empty"))
	}
	r.ahead(strings.Count(t.s, sep.s), limit)
	if right {
		return splitRight(t, sep.s, limit)
	}
	at := 0
	for n := strings.Index(t.s, sep.s); limit != 0 && n >= 0; n = strings.Index(t.s[at:], sep.s) {
		out = append(out, t.slice(at, at+n))
		at += n + len(sep.s)
		limit--
	}
	return append(out, t.slice(at, len(t.s)))
}

func splitRight(t Text, sep string, limit int) (out []Text) {
	end := len(t.s)
	for at := strings.LastIndex(t.s, sep); limit != 0 && at >= 0; at = strings.LastIndex(t.s[:end], sep) {
		out = append(out, t.slice(at+len(sep), end))
		end = at
		limit--
	}
	out = append(out, t.slice(0, end))
	slices.Reverse(out)
	return out
}

// splitWords splits at runs of white space, of which none is kept but what
// surrounds the part that is left when limit is reached.
func (r *run) splitWords(t Text, right bool, limit int) []Text {
	r.ahead(len(t.s)/2, limit)
	if right {
		return wordsFromRight(t, limit)
	}
	return words(t, limit)
}

func words(t Text, limit int) (out []Text) {
	for at := 0; ; limit-- {
		at = len(t.s) - len(strings.TrimLeftFunc(t.s[at:], isSpace))
		if at == len(t.s) {
			return out
		}
		n := strings.IndexFunc(t.s[at:], isSpace)
		if limit == 0 || n < 0 {
			return append(out, t.slice(at, len(t.s)))
		}
		out = append(out, t.slice(at, at+n))
		at += n
	}
}

func wordsFromRight(t Text, limit int) (out []Text) {
	for end := len(t.s); ; limit-- {
		if end = len(strings.TrimRightFunc(t.s[:end], isSpace)); end == 0 {
			break
		}
		at := strings.LastIndexFunc(t.s[:end], isSpace)
		if limit == 0 || at < 0 {
			out = append(out, t.slice(0, end))
			break
		}
		_, n := utf8.DecodeRuneInString(t.s[at:])
		out = append(out, t.slice(at+n, end))
		end = at
	}
	slices.Reverse(out)
	return out
}

// splitLines is splitlines(keepends=False).
func splitLines(r *run, t Text, a args) value {
	given := a.bind("splitlines", "keepends?")
	out := NewList()
	for at := 0; at < len(t.s); {
		stop, next := lineAt(t.s, at)
		if flag(given[0]) {
			stop = next
		}
		r.makeItems(4)
		out.items = append(out.items, t.slice(at, stop))
		at = next
	}
	return out
}

func endsLine(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

// partition returns what stands before a separator, the separator, and what follows.
func partition(t Text, right bool, a args) value {
	given := a.bind("partition", "sep")
	sep := texts(given[0], "")
	if sep.s == "" {
		panic(failf("the separator is empty"))
	}
	at := strings.Index(t.s, sep.s)
	if right {
		at = strings.LastIndex(t.s, sep.s)
	}
	switch {
	case at >= 0:
		end := at + len(sep.s)
		return newTuple(t.slice(0, at), t.slice(at, end), t.slice(end, len(t.s)))
	case right:
		return newTuple(Text{}, Text{}, t)
	}
	return newTuple(t, Text{}, Text{})
}
