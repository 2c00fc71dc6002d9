package tokenizer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalizer changes a text before it is split, step by step.
type normalizer []normalStep

type normalStep struct {
	apply func(string) string
	// shrink is how many times fewer bytes a text has after it at most; 0 if
	// there is no bound.
	shrink int
}

func (n normalizer) apply(s string) string {
	for _, step := range n {
		s = step.apply(s)
	}
	return s
}

func (n normalizer) shrink() int {
	product := 1
	for _, step := range n {
		product *= step.shrink
	}
	return product
}

// maxShrink is that of a normal form: letters of four bytes become ASCII, and
// what follows is composed with them.
const maxShrink = 4

func toForm(form norm.Form) normalStep {
	return normalStep{func(s string) string { return normalForm(form, s) }, maxShrink}
}

func lowercase(s string) string {
	lower := strings.ToLower(s)
	if !strings.Contains(s, "İ") {
		return lower
	}
	var b strings.Builder
	for i, r := range s {
		if r == 'İ' { // the one letter whose small form is two characters
			b.WriteString("i\u0307")
			continue
		}
		writeRune(&b, s[i:], unicode.ToLower(r))
	}
	return b.String()
}

// writeRune writes r for the character that s begins with; a byte that is not
// UTF-8 stays as it is.
func writeRune(b *strings.Builder, s string, r rune) {
	if _, n := utf8.DecodeRuneInString(s); r == utf8.RuneError && n == 1 {
		b.WriteByte(s[0])
		return
	}
	b.WriteRune(r)
}

// keep drops the characters that is does not take.
func keep(s string, is func(rune) bool) string {
	if strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		if is(r) {
			writeRune(&b, s[i:], r)
		}
	}
	return b.String()
}

// longRun is how many combining characters x/text/unicode/norm leaves together;
// after them it inserts a joiner, as UAX #15 lets streams do and tokenizers does
// not.
const longRun = 30

// normalForm returns the normal form of s, however long its runs of combining
// characters are.
func normalForm(form norm.Form, s string) string {
	var b strings.Builder
	done, at, run := 0, 0, 0
	for at < len(s) {
		if s[at] < utf8.RuneSelf {
			at, run = at+1, 0
			continue
		}
		p := form.PropertiesString(s[at:])
		n := max(p.Size(), 1)
		if p.CCC() == 0 && p.BoundaryBefore() {
			run = 0
		} else if run++; run == longRun/3 { // a character may become three combining ones
			start, end := around(form, s, done, at)
			b.WriteString(form.String(s[done:start]))
			b.WriteString(longForm(form, s[start:end]))
			done, at, run = end, end, 0
			continue
		}
		at += n
	}
	if done == 0 {
		return form.String(s)
	}
	b.WriteString(form.String(s[done:]))
	return b.String()
}

// around returns the run of characters that may combine with the one at i, and the
// character before them.
func around(form norm.Form, s string, floor, i int) (start, end int) {
	start, end = i, i
	for start > floor {
		p := form.PropertiesString(s[start:])
		if utf8.RuneStart(s[start]) && p.CCC() == 0 && p.BoundaryBefore() {
			break
		}
		start--
	}
	for end < len(s) {
		p := form.PropertiesString(s[end:])
		if end > start && p.CCC() == 0 && p.BoundaryBefore() {
			break
		}
		end += max(p.Size(), 1)
	}
	return start, end
}

// longForm returns the normal form of one run, by UAX #15: decompose, order by
// combining class, compose.
func longForm(form norm.Form, s string) string {
	apart := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		apart = norm.NFKD
	}
	var runes []rune
	for _, r := range s {
		runes = append(runes, []rune(apart.String(string(r)))...)
	}
	order(runes)
	if form == norm.NFC || form == norm.NFKC {
		runes = compose(runes)
	}
	return string(runes)
}

func combining(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }

func order(runes []rune) {
	for i := 0; i < len(runes); {
		j := i
		for j < len(runes) && combining(runes[j]) != 0 {
			j++
		}
		slices.SortStableFunc(runes[i:j], func(a, b rune) int { return int(combining(a)) - int(combining(b)) })
		i = j + 1
	}
}

// compose joins each character with the last one that begins something, unless
// one of the same class or of none stands between them.
func compose(runes []rune) []rune {
	out := runes[:0]
	starter, before := -1, 0 // index in out; class of the last character since, 0 for none
	for _, r := range runes {
		class := int(combining(r))
		adjacent := starter == len(out)-1
		if starter >= 0 && (adjacent || before != 0 && before < class) {
			if whole := []rune(norm.NFC.String(string(out[starter]) + string(r))); len(whole) == 1 {
				out[starter] = whole[0]
				continue
			}
		}
		if class == 0 {
			starter = len(out)
		}
		before = class
		out = append(out, r)
	}
	return out
}
