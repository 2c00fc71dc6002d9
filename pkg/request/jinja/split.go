package jinja

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// split is split(sep=None, maxsplit=-1), or from the right.
func (r *run) split(t Text, right bool, a args) (value, error) {
	given, err := a.bind("split", "sep? maxsplit?")
	if err != nil {
		return nil, err
	}
	limit, err := integer(given[1], -1)
	if err != nil {
		return nil, err
	}
	var parts []Text
	if given[0] == nil || given[0] == (absent{}) {
		parts, err = r.splitWords(t, right, limit)
	} else {
		parts, err = r.splitAt(t, given[0], right, limit)
	}
	if err != nil {
		return nil, err
	}
	out := NewList()
	for _, p := range parts {
		out.items = append(out.items, p)
	}
	return out, r.makeItems(4 * len(parts))
}

// ahead asks for the room of n parts before they are made.
func (r *run) ahead(n, limit int) error {
	if limit >= 0 {
		n = min(n, limit)
	}
	return r.makeItems(4 * (n + 1))
}

func (r *run) splitAt(t Text, by value, right bool, limit int) (out []Text, err error) {
	sep, err := texts(by, "")
	if err != nil {
		return nil, err
	}
	if sep.s == "" {
		return nil, errors.New("the separator is empty")
	}
	if err := r.ahead(strings.Count(t.s, sep.s), limit); err != nil {
		return nil, err
	}
	if right {
		return splitRight(t, sep.s, limit), nil
	}
	for limit != 0 {
		at := strings.Index(t.s, sep.s)
		if at < 0 {
			break
		}
		out = append(out, t.slice(0, at))
		t = t.slice(at+len(sep.s), len(t.s))
		limit--
	}
	return append(out, t), nil
}

func splitRight(t Text, sep string, limit int) (out []Text) {
	for limit != 0 {
		at := strings.LastIndex(t.s, sep)
		if at < 0 {
			break
		}
		out = append([]Text{t.slice(at+len(sep), len(t.s))}, out...)
		t = t.slice(0, at)
		limit--
	}
	return append([]Text{t}, out...)
}

// splitWords splits at runs of white space, of which none is kept but what
// surrounds the part that is left when limit is reached.
func (r *run) splitWords(t Text, right bool, limit int) (out []Text, err error) {
	if err := r.ahead(len(t.s)/2, limit); err != nil {
		return nil, err
	}
	left := func(s string) string { return strings.TrimLeftFunc(s, isSpace) }
	end := func(s string) string { return strings.TrimRightFunc(s, isSpace) }
	if right {
		left, end = end, left
	}
	for {
		if t = trimSide(t, left, right); t.s == "" {
			return out, nil
		}
		at := strings.IndexFunc(t.s, isSpace)
		if right {
			if at = strings.LastIndexFunc(t.s, isSpace); at >= 0 {
				_, n := utf8.DecodeRuneInString(t.s[at:])
				at += n
			}
		}
		if limit == 0 || at < 0 {
			return placed(out, t, right), nil
		}
		limit--
		if right {
			out, t = placed(out, t.slice(at, len(t.s)), true), t.slice(0, at)
		} else {
			out, t = append(out, t.slice(0, at)), t.slice(at, len(t.s))
		}
	}
}

func trimSide(t Text, cut func(string) string, right bool) Text {
	if right {
		return t.trimmed(nil, cut)
	}
	return t.trimmed(cut, nil)
}

// placed puts a part where it belongs: before the others when splitting from the right.
func placed(parts []Text, t Text, first bool) []Text {
	if first {
		return append([]Text{t}, parts...)
	}
	return append(parts, t)
}

// splitLines is splitlines(keepends=False).
func splitLines(r *run, t Text, a args) (value, error) {
	given, err := a.bind("splitlines", "keepends?")
	if err != nil {
		return nil, err
	}
	out := NewList()
	for at := 0; at < len(t.s); {
		n := strings.IndexFunc(t.s[at:], endsLine)
		stop, next := len(t.s), len(t.s)
		if n >= 0 {
			_, size := utf8.DecodeRuneInString(t.s[at+n:])
			stop, next = at+n, at+n+size
			if strings.HasPrefix(t.s[stop:], "\r\n") {
				next++
			}
		}
		if flag(given[0], false) {
			stop = next
		}
		if err := r.makeItems(4); err != nil {
			return nil, err
		}
		out.items = append(out.items, t.slice(at, stop))
		at = next
	}
	return out, nil
}

func endsLine(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

// partition is what stands before a separator, the separator, and what follows.
func partition(t Text, right bool, a args) (value, error) {
	given, err := a.bind("partition", "sep")
	if err != nil {
		return nil, err
	}
	sep, err := texts(given[0], "")
	if err != nil || sep.s == "" {
		return nil, firstOf(err, errors.New("the separator is empty"))
	}
	at := strings.Index(t.s, sep.s)
	if right {
		at = strings.LastIndex(t.s, sep.s)
	}
	switch {
	case at >= 0:
		end := at + len(sep.s)
		return newTuple(t.slice(0, at), t.slice(at, end), t.slice(end, len(t.s))), nil
	case right:
		return newTuple(Text{}, Text{}, t), nil
	}
	return newTuple(t, Text{}, Text{}), nil
}
