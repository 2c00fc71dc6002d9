package words

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// Class is a set of kinds that a character is of; as a question, kinds of which
// it must be at least one.
type Class uint16

// The kinds that patterns ask for.
const (
	Letter   Class = 1 << iota // \p{L}
	Mark                       // \p{M}
	Number                     // \p{N}
	Space                      // \s
	Punct                      // \p{P}
	Symbol                     // \p{S}
	BertMark                   // what BERT takes for punctuation: \p{P} and all of ASCII's
	Rest                       // [^\s\p{L}\p{N}]
	RestBare                   // [^\s\p{L}\p{M}\p{N}]
	Upper                      // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	Lower                      // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
	Han                        // \p{Han}
	UpperBut                   // Upper without Han
	LowerBut                   // Lower without Han
)

// Table tells the class of any character.
type Table struct {
	ascii [utf8.RuneSelf]Class
	pages []*[pageSize]Class
}

const pageSize = 256

// Classes is the table, made at first use: it takes some milliseconds.
var Classes = sync.OnceValue(newTable)

func newTable() *Table {
	flat := make([]Class, (unicode.MaxRune/pageSize+1)*pageSize)
	add := func(c Class, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			mark(flat, c, t)
		}
	}
	add(Letter, unicode.L)
	add(Mark|Upper|Lower, unicode.M)
	add(Number, unicode.N)
	add(Space, unicode.White_Space)
	add(Punct|BertMark, unicode.P)
	add(Symbol, unicode.S)
	add(Upper, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo)
	add(Lower, unicode.Ll, unicode.Lm, unicode.Lo)
	add(Han, unicode.Han)
	for r, c := range flat {
		flat[r] |= derived(rune(r), c)
	}
	return paged(flat)
}

// derived adds the kinds that follow from others.
func derived(r rune, c Class) (more Class) {
	if c&(Space|Letter|Number) == 0 {
		more |= Rest
		if c&Mark == 0 {
			more |= RestBare
		}
	}
	if r < utf8.RuneSelf && c&Symbol != 0 {
		more |= BertMark
	}
	if c&Han == 0 && c&Upper != 0 {
		more |= UpperBut
	}
	if c&Han == 0 && c&Lower != 0 {
		more |= LowerBut
	}
	return more
}

func mark(flat []Class, c Class, t *unicode.RangeTable) {
	for _, r := range t.R16 {
		for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
			flat[x] |= c
		}
	}
	for _, r := range t.R32 {
		for x := int(r.Lo); x <= int(r.Hi); x += int(r.Stride) {
			flat[x] |= c
		}
	}
}

// paged keeps one copy of each page: most are equal to another one.
func paged(flat []Class) *Table {
	t := &Table{}
	copy(t.ascii[:], flat)
	seen := map[[pageSize]Class]*[pageSize]Class{}
	for at := 0; at < len(flat); at += pageSize {
		page := [pageSize]Class(flat[at : at+pageSize])
		if seen[page] == nil {
			seen[page] = &page
		}
		t.pages = append(t.pages, seen[page])
	}
	return t
}

// Of returns the class of a character.
func (t *Table) Of(r rune) Class { return t.pages[r/pageSize][r%pageSize] }

// at returns the class of the character at i and its length; 0 and 0 at the end.
func (t *Table) at(s string, i int) (Class, int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return t.ascii[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.Of(r), n
}

// run returns where the run of characters of one of the kinds ends that begins at i.
func (t *Table) run(s string, i int, kinds Class) int {
	for i < len(s) {
		if c := s[i]; c < utf8.RuneSelf {
			if t.ascii[c]&kinds == 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if t.Of(r)&kinds == 0 {
			return i
		}
		i += n
	}
	return i
}

// upTo is run for at most limit characters.
func (t *Table) upTo(s string, i int, kinds Class, limit int) int {
	for ; limit > 0; limit-- {
		c, n := t.at(s, i)
		if c&kinds == 0 {
			break
		}
		i += n
	}
	return i
}
