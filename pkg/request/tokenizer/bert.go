package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is tokenizer.json's normalizer of that name.
//
// Source: BasicTokenizer in Google's tokenization.py for BERT. What is a mark, a
// control character or punctuation is Go's Unicode tables' matter; tokenizers
// has older ones, which lack some 500 characters of rare scripts.
type bertNormalizer struct {
	Clean     bool  `json:"clean_text"`
	Chinese   bool  `json:"handle_chinese_chars"`
	Accents   *bool `json:"strip_accents"` // absent: as lowercase says
	Lowercase bool  `json:"lowercase"`
}

func (n *bertNormalizer) apply(s string) string {
	if n.Clean || n.Chinese {
		s = n.rewrite(s)
	}
	if n.Accents == nil && n.Lowercase || n.Accents != nil && *n.Accents {
		s = keep(normalForm(norm.NFD, s), func(r rune) bool { return !unicode.Is(unicode.Mn, r) })
	}
	if n.Lowercase {
		s = lowercase(s)
	}
	return s
}

// rewrite drops control characters, makes all white space blanks, and puts
// blanks around Chinese characters.
func (n *bertNormalizer) rewrite(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch {
		case n.Clean && (r == '\t' || r == '\n' || r == '\r'):
			b.WriteByte(' ')
		case n.Clean && (r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)):
		case n.Clean && unicode.IsSpace(r):
			b.WriteByte(' ')
		case n.Chinese && unicode.Is(chinese, r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			writeRune(&b, s[i:], r)
		}
	}
	return b.String()
}

// chinese are BERT's "CJK characters".
var chinese = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x3400, Hi: 0x4dbf, Stride: 1}, {Lo: 0x4e00, Hi: 0x9fff, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1}},
	R32: []unicode.Range32{
		{Lo: 0x20000, Hi: 0x2a6df, Stride: 1}, {Lo: 0x2a700, Hi: 0x2b73f, Stride: 1}, {Lo: 0x2b740, Hi: 0x2b81f, Stride: 1},
		{Lo: 0x2b920, Hi: 0x2ceaf, Stride: 1}, {Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1},
	},
}
