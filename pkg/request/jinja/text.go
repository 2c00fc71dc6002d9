package jinja

import (
	"cmp"
	"slices"
	"strings"
)

// Text is a string, and which of its bytes came from outside the template.
type Text struct {
	s       string
	outside []span // ascending, apart from each other, not empty
}

// span is the bytes from Start up to End.
type span struct{ Start, End int }

// Inside returns a text of the template or of the model's own files.
func Inside(s string) Text { return Text{s: s} }

// Outside returns a text that somebody sent.
func Outside(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{s, []span{{0, len(s)}}}
}

// String returns the text alone.
func (t Text) String() string { return t.s }

func (t Text) size() int { return len(t.s) + itemBytes*len(t.outside) }

func (t Text) slice(i, j int) Text {
	out := Text{s: t.s[i:j]}
	first, _ := slices.BinarySearchFunc(t.outside, i+1, func(p span, at int) int { return cmp.Compare(p.End, at) })
	for _, p := range t.outside[first:] {
		if p.Start >= j || i == j {
			break
		}
		out.outside = append(out.outside, span{max(p.Start, i) - i, min(p.End, j) - i})
	}
	return out
}

// Before returns the text up to byte n.
func (t Text) Before(n int) Text { return t.slice(0, n) }

// as gives s the origin of t: from outside if any of t is.
func (t Text) as(s string) Text {
	if len(t.outside) > 0 {
		return Outside(s)
	}
	return Inside(s)
}

// mapped applies f, which must treat every character by itself.
func (t Text) mapped(f func(string) string) Text {
	if len(t.outside) == 0 {
		return Inside(f(t.s))
	}
	var w textWriter
	t.Pieces(func(s string, outside bool) { w.write(f(s), outside) })
	return w.text()
}

// Pieces calls f for each part of one origin, in order.
func (t Text) Pieces(f func(s string, outside bool)) {
	at := 0
	for _, p := range t.outside {
		if at < p.Start {
			f(t.s[at:p.Start], false)
		}
		f(t.s[p.Start:p.End], true)
		at = p.End
	}
	if at < len(t.s) {
		f(t.s[at:], false)
	}
}

// trimmed is t without what cut takes from its left and right.
func (t Text) trimmed(left, right func(string) string) Text {
	start, end := 0, len(t.s)
	if left != nil {
		start = end - len(left(t.s))
	}
	if right != nil {
		end = start + len(right(t.s[start:]))
	}
	return t.slice(start, end)
}

type textWriter struct {
	strings.Builder
	outside []span
}

func (w *textWriter) write(s string, outside bool) {
	start := w.Len()
	w.WriteString(s)
	if n := len(w.outside); outside && n > 0 && w.outside[n-1].End == start {
		w.outside[n-1].End = w.Len()
	} else if outside && s != "" {
		w.outside = append(w.outside, span{start, w.Len()})
	}
}

func (w *textWriter) add(t Text) {
	at := w.Len()
	w.WriteString(t.s)
	for _, p := range t.outside {
		start, end := at+p.Start, at+p.End
		if n := len(w.outside); n > 0 && w.outside[n-1].End == start {
			w.outside[n-1].End = end
			continue
		}
		w.outside = append(w.outside, span{start, end})
	}
}

func (w *textWriter) text() Text { return Text{w.String(), slices.Clip(w.outside)} }

func concat(a, b Text) Text {
	var w textWriter
	w.Grow(len(a.s) + len(b.s))
	w.add(a)
	w.add(b)
	return w.text()
}
