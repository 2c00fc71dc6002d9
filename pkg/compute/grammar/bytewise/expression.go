package bytewise

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Expression is a regular expression over characters.
type Expression struct {
	op          operator
	runes       []rune // of opRunes: low, high, low, high, …
	sub         []*Expression
	least, most int // of opRepeat; most < 0: however many more
}

type operator uint8

const (
	opEmpty operator = iota
	opRunes
	opJoin
	opEither
	opRepeat
	opBegin
	opEnd
)

// Any is any text.
func Any() *Expression { return repeated(anyRune(), 0, -1) }

// Anywhere has an expression match anywhere in a text.
func (e *Expression) Anywhere() *Expression {
	return &Expression{op: opJoin, sub: []*Expression{Any(), e, Any()}}
}

func anyRune() *Expression { return &Expression{op: opRunes, runes: []rune{0, utf8.MaxRune}} }

func repeated(e *Expression, least, most int) *Expression {
	return &Expression{op: opRepeat, sub: []*Expression{e}, least: least, most: most}
}

// String tells expressions apart.
func (e *Expression) String() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *Expression) write(b *strings.Builder) {
	fmt.Fprintf(b, "%d", e.op)
	for _, r := range e.runes {
		fmt.Fprintf(b, ",%x", r)
	}
	if e.op == opRepeat {
		fmt.Fprintf(b, "{%d,%d}", e.least, e.most)
	}
	if len(e.sub) > 0 {
		b.WriteByte('(')
		for _, s := range e.sub {
			s.write(b)
			b.WriteByte(' ')
		}
		b.WriteByte(')')
	}
}

// manyCharacters are more than any text has.
const manyCharacters = 1 << 30

// lengths returns the least and the most characters of what matches; most < 0: no bound.
func (e *Expression) lengths() (least, most int) {
	switch e.op {
	case opRunes:
		return 1, 1
	case opJoin:
		for _, s := range e.sub {
			low, high := s.lengths()
			least = min(least+low, manyCharacters)
			if most = min(most+high, manyCharacters); high < 0 || most < 0 {
				most = -1 << 40
			}
		}
		return least, max(most, -1)
	case opEither:
		least = manyCharacters
		for _, s := range e.sub {
			low, high := s.lengths()
			least = min(least, low)
			if most = max(most, high); high < 0 || most < 0 {
				most = -1 << 40
			}
		}
		return least, max(most, -1)
	case opRepeat:
		low, high := e.sub[0].lengths()
		least = min(low*e.least, manyCharacters)
		if high == 0 || e.most == 0 {
			return least, 0
		}
		if high < 0 || e.most < 0 || high > manyCharacters/e.most {
			return least, -1
		}
		return least, high * e.most
	}
	return 0, 0
}

// anchored reports whether what matches has to begin where a text does, and to end where it does.
func (e *Expression) anchored() (begins, ends bool) {
	switch e.op {
	case opBegin:
		return true, false
	case opEnd:
		return false, true
	case opJoin:
		for i, s := range e.sub {
			b, n := s.anchored()
			begins, ends = begins || i == 0 && b, ends || i == len(e.sub)-1 && n
		}
		return begins, ends
	case opEither:
		begins, ends = true, true
		for _, s := range e.sub {
			b, n := s.anchored()
			begins, ends = begins && b, ends && n
		}
		return begins, ends
	}
	return false, false
}

// normal sorts ranges and joins those that touch.
func normal(ranges []rune) []rune {
	type span struct{ low, high rune }
	var all []span
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] <= ranges[i+1] {
			all = append(all, span{ranges[i], ranges[i+1]})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return int(a.low) - int(b.low) })
	var out []rune
	for _, s := range all {
		if n := len(out); n > 0 && s.low <= out[n-1]+1 {
			out[n-1] = max(out[n-1], s.high)
			continue
		}
		out = append(out, s.low, s.high)
	}
	return out
}

// complement returns what normal ranges leave out.
func complement(ranges []rune) (out []rune) {
	next := rune(0)
	for i := 0; i+1 < len(ranges); i += 2 {
		if ranges[i] > next {
			out = append(out, next, ranges[i]-1)
		}
		next = ranges[i+1] + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, next, utf8.MaxRune)
	}
	return out
}

// lastFolded is behind all characters that others differ from in case alone.
const lastFolded = 0x1ffff

// folded adds the characters that differ from those of ranges in case alone.
func folded(ranges []rune) []rune {
	out := slices.Clone(ranges)
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], lastFolded); r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				out = append(out, f, f)
			}
		}
	}
	return normal(out)
}

// rangesOf returns the characters of a table.
func rangesOf(t *unicode.RangeTable) (out []rune) {
	add := func(low, high, stride rune) {
		if stride == 1 {
			out = append(out, low, high)
			return
		}
		for r := low; r <= high; r += stride {
			out = append(out, r, r)
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return normal(out)
}
