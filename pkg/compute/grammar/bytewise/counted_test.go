package bytewise

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// counted are expressions with repetitions of many, and of what texts of them are made.
var counted = []struct {
	expression string
	pieces     []string
}{
	{`^[ab]{2,40}$`, []string{"a", "b", "ab"}}, {`^a{17}$`, []string{"a", "aa"}}, {`^a{0,20}b{16,18}$`, []string{"a", "b"}}, {`^a{20,}$`, []string{"a", "aaaa"}},
	{`^(ab){16,20}$`, []string{"ab"}}, {`^(ab|c){16,20}$`, []string{"ab", "c"}}, {`^([ab]{3}\.){16,18}[ab]{3}$`, []string{"aba.", "bbb.", "aaa"}},
	{`^([ab]{1,20}\.){0,17}$`, []string{"aaa.", "b", "b."}}, {`^([ab]{1,20},)*x$`, []string{"a", "bb,", "x"}}, {`^a{16,30}?x?$`, []string{"a", "x"}},
	{`^a{16,20}a{3}$`, []string{"a", "aa"}}, {`^(a{16}|b{17})$`, []string{"a", "b"}}, {`^(a{16,18}|a{3}b)+$`, []string{"aaa", "a", "b"}},
	{`a{18}`, []string{"a", "aaa", "b"}}, {`^x|a{17,19}y`, []string{"a", "aaa", "y", "x"}}, {`^(a?b?){17}$`, []string{"a", "b"}}, {`^[^x]{16,20}x$`, []string{"é", "a", "x", "\n"}},
	{`^é{16,17}$`, []string{"é"}}, {`^(a{17})?$`, []string{"a"}}, {`^(a{16,17}b){16,17}$`, []string{strings.Repeat("a", 16) + "b", strings.Repeat("a", 17) + "b"}},
	{`^(ab?){16,19}$`, []string{"a", "ab"}}, {`^(aa|a){17,18}$`, []string{"a", "aa"}},
}

// What is counted is what Go's regular expressions count, within bounds of characters, too.
func TestCounted(t *testing.T) {
	for _, tt := range counted {
		for _, within := range []Bounds{AnyLength, {0, 18}, {17, -1}, {16, 17}, {30, 40}} {
			e, err := ECMA(tt.expression)
			if err != nil {
				t.Fatal(err)
			}
			all, bounds := Simplify([]*Expression{e.Anywhere()}, within)
			d, err := stringsOf(bounds == AnyLength, bounds, Options{}, all...)
			if err != nil && !errors.Is(err, ErrEmpty) {
				t.Errorf("%s, %v: %v", tt.expression, within, err)
				continue
			}
			compareCounted(t, d, tt.expression, tt.pieces, within)
		}
	}
}

// compareCounted compares strings with Go's regular expressions; nil are none.
func compareCounted(t *testing.T, d *Strings, expression string, pieces []string, within Bounds) {
	t.Helper()
	want, r := regexp.MustCompile(expression), rand.New(rand.NewPCG(1, 2))
	for range 300 {
		text := ""
		for range r.IntN(45) {
			text += pieces[r.IntN(len(pieces))]
		}
		text += strings.Repeat(pieces[0], r.IntN(25))
		is := want.MatchString(text) && within.has(int32(len([]rune(text))))
		if got := d != nil && d.Match(text); got != is {
			t.Fatalf("%s, %v: %q of %d characters is %v", expression, within, text, len([]rune(text)), got)
		}
	}
	if d != nil {
		followToEnd(t, d, expression)
	}
}

// How large a count is has no say in how much is made.
func TestCountsAreNotUnrolled(t *testing.T) {
	for _, expression := range []string{`^[a-z]{1,%d}$`, `^a.{0,%d}$`, `^[a-z]{2}[0-9]{1,%d}$`, `^(\d{3}-){1,%d}\d$`, `^\p{L}{1,%d}-\p{N}{0,%[1]d}$`, `^https://.{1,%d}$`, `^[^\s]{5,%d}$`} {
		var left [2]Budget
		for i, count := range []int{100, 1_000_000} {
			e, err := ECMA(fmt.Sprintf(expression, count))
			if err != nil {
				t.Fatal(err)
			}
			all, within := Simplify([]*Expression{e.Anywhere()}, AnyLength)
			b := budget()
			body, err := NewBody(b, all, within == AnyLength, Options{Quoted: true})
			if err == nil {
				_, err = NewStrings(b, body, within)
			}
			if err != nil {
				t.Fatalf("%s of %d: %v", expression, count, err)
			}
			left[i] = *b
		}
		if left[0] != left[1] {
			t.Errorf("%s: %+v is left of 100, %+v of a million", expression, left[0], left[1])
		}
	}
}

// Expressions are read as ECMA-262 has them.
func TestECMA(t *testing.T) {
	for _, tt := range []struct {
		expression string
		yes, no    []string
	}{
		{`^\S$`, []string{"a", "é", "\u200b"}, []string{" ", "\u00a0", "\ufeff", "\u2003", "\u2028", "\u3000", "\v", "\u1680"}},
		{`^\s$`, []string{"\u00a0", "\v", "\ufeff", "\u2029"}, []string{"a", "\u200b", "\u0085", "\u180e"}},
		{`^[\S]$`, []string{"a"}, []string{"\u00a0"}}, {`^[^\s]$`, []string{"a"}, []string{"\u00a0", "\u2028"}}, {`^[\s\S]$`, []string{"\u00a0", "a", "\n"}, nil},
		{`^.$`, []string{"a", "😀", "\u0085", "\v"}, []string{"\n", "\r", "\u2028", "\u2029", ""}}, {`^(?s:.)$`, []string{"\n", "\u2028"}, nil}, {`^(?:.)$`, []string{"a"}, []string{"\u2028"}},
		{`^\u{1F600}$`, []string{"😀"}, nil}, {`^[\u{1F600}-\u{1F64F}]$`, []string{"😀", "🙏"}, []string{"a"}}, {`^\ud83d\ude00$`, []string{"😀"}, nil}, {`^[\ud83d\ude00]$`, []string{"😀"}, nil},
		{`^\u00e9\xe9\cJ\0$`, []string{"éé\n\x00"}, nil}, {`^[\b]$`, []string{"\b"}, nil}, {`^\/\-\.\@$`, []string{"/-.@"}, nil}, {`^[\w-.]$`, []string{"-", ".", "_"}, []string{"é"}},
		{`^\d$`, []string{"7"}, []string{"٣"}}, {`^\w$`, []string{"_"}, []string{"é", "ſ"}}, {`^\W$`, []string{"é"}, []string{"a"}}, {`^\D$`, []string{"٣"}, []string{"3"}},
		{`^\p{L}$`, []string{"é", "字"}, []string{"1"}}, {`^\p{Letter}\p{Script=Greek}\p{Lu}\P{L}$`, []string{"aαA1"}, []string{"aaA1"}}, {`^\p{Alphabetic}$`, []string{"ⅷ"}, nil},
		{`^\p{gc=Nd}\p{sc=Cyrillic}\p{ASCII}\p{Any}$`, []string{"٣яa\n"}, nil}, {`^[\p{L}\p{N}_-]+$`, []string{"é-1_"}, []string{" "}}, {`^[^\p{L}]$`, []string{"1"}, []string{"é"}},
		{`^a{,3}$`, []string{"a{,3}"}, []string{"aa"}}, {`^{a}$`, []string{"{a}"}, nil}, {`^a{2$`, []string{"a{2"}, nil}, {`^]$`, []string{"]"}, nil}, {`^[]$`, nil, []string{"", "a"}}, {`^[^]$`, []string{"\n", "a"}, nil},
		{`^(?<year>\d{4})$`, []string{"2024"}, nil}, {`^(?i)É$`, []string{"é", "É"}, nil}, {`^(?i:k)K$`, []string{"\u212aK"}, []string{"kk"}}, {`^a(?:b|c)??d*?$`, []string{"abdd", "a"}, nil},
		{`^[[:alpha:]]$`, []string{"a]", ":]"}, []string{"b", "a"}}, {`a|`, []string{"", "b"}, nil}, {`^a{1001}$`, []string{strings.Repeat("a", 1001)}, []string{"a"}}, {`^$`, []string{""}, []string{"a"}}, {``, []string{"", "a"}, nil},
	} {
		e, err := ECMA(tt.expression)
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		d, err := stringsOf(true, AnyLength, Options{}, e.Anywhere())
		if errors.Is(err, ErrEmpty) && tt.yes == nil {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.expression, err)
			continue
		}
		for _, text := range tt.yes {
			if !d.Match(text) {
				t.Errorf("%s does not match %q", tt.expression, text)
			}
		}
		for _, text := range tt.no {
			if d.Match(text) {
				t.Errorf("%s matches %q", tt.expression, text)
			}
		}
	}
}

// What is not known is named.
func TestECMARefused(t *testing.T) {
	for expression, says := range map[string]string{
		`a(?=b)`: "lookaheads", `a(?!b)`: "lookaheads", `(?<=a)b`: "lookbehinds", `(?<!a)b`: "lookbehinds", `(a)\1`: `references back, \1,`, `(?<n>a)\k<n>`: `references back, \k,`,
		`\bword`: `\b and \B`, `\p{Emoji}`: `\p{Emoji} is not known`, `[\p{Nope}]`: `\p{Nope}`, `\p{scx=Grek}`: `\p{scx=Grek}`, `\A`: `\A is not known`, `a\z`: `\z is not known`, `\u12`: `\u is not known without`,
		`\u{110000}`: `\u is not known without`, `\x1`: `\x is not known without`, `\c1`: `\c is not known`, `[`: "missing closing ]", `(`: "missing closing )", `)`: "missing opening (", `*`: "missing argument",
		`a**`: "a repetition of a repetition", `^*`: "missing argument", `a{3,1}`: "out of order", `[z-a]`: "invalid range", `\`: "a backslash at the end", `(?m)^a`: "(?m) is not known", `(?<n`: "missing closing >",
		strings.Repeat("(", 200): "nested more than 100 deep", `a{99999999}`: "has no room",
	} {
		if _, err := ECMA(expression); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", expression, err, says)
		}
	}
}
