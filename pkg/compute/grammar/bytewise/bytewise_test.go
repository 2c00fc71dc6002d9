package bytewise

import (
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func budget() *Budget { return &Budget{States: 1 << 14, Work: 1 << 22} }

// matching are the strings that an expression matches, anywhere or as a whole; counted or not.
func matching(expression string, search, counted bool, within Bounds, o Options) (*Strings, error) {
	e, err := Perl(expression)
	if err != nil {
		return nil, err
	}
	if search {
		e = e.Anywhere()
	}
	return stringsOf(counted, within, o, e)
}

func stringsOf(counted bool, within Bounds, o Options, all ...*Expression) (*Strings, error) {
	body, err := NewBody(budget(), all, counted, o)
	if err != nil {
		return nil, err
	}
	return NewStrings(budget(), body, within)
}

// drawExpression draws expressions over few characters, so that texts match often.
func drawExpression(t *rapid.T, depth int) string {
	if depth == 0 {
		return rapid.SampledFrom([]string{"a", "b", "é", ".", "[ab]", "[^a]", `\d`, `"`, `\\`, "^", "$", "\n"}).Draw(t, "atom")
	}
	sub := func() string { return drawExpression(t, depth-1) }
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return sub() + sub()
	case 1:
		return "(" + sub() + "|" + sub() + ")"
	case 2:
		return "(" + sub() + ")*"
	case 3:
		return "(" + sub() + ")" + rapid.SampledFrom([]string{"{1,3}", "{0,2}", "{2,}", "{16}"}).Draw(t, "times")
	case 4:
		return "(?i:" + sub() + ")?"
	case 5:
		return "(" + sub() + ")+"
	}
	return sub()
}

func drawText(t *rapid.T) string {
	return rapid.StringOfN(rapid.SampledFrom([]rune("abABé7\"\\\n/")), 0, 6, -1).Draw(t, "text")
}

// Go's own regular expressions agree, for all of a text and for a part of it.
func TestRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		expression := drawExpression(t, 3)
		for _, search := range []bool{false, true} {
			d, err := matching(expression, search, rapid.Bool().Draw(t, "counted"), AnyLength, Options{})
			if large := new(TooLargeError); errors.As(err, &large) {
				continue
			}
			want := regexp.MustCompile(`^(?:` + expression + `)$`)
			if search {
				want = regexp.MustCompile(expression)
			}
			for range 10 {
				text := drawText(t)
				if got := err == nil && d.Match(text); got != want.MatchString(text) {
					t.Fatalf("%q, search %v: %q is %v (%v)", expression, search, text, got, err)
				}
			}
		}
	})
}

// Of a quoted text just what JSON decodes to a match is accepted.
func TestQuoted(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "é", `\"`, `\\`, `\n`, `\u0061`, `\u00e9`, `\ud83d\ude00`, "7", "😀", `\/`})
	rapid.Check(t, func(t *rapid.T) {
		expression := drawExpression(t, 2)
		plain, err1 := matching(expression, true, true, AnyLength, Options{})
		quoted, err2 := matching(expression, true, true, AnyLength, Options{Quoted: true})
		if err1 != nil || err2 != nil {
			return
		}
		text := strings.Join(rapid.SliceOfN(piece, 0, 5).Draw(t, "pieces"), "")
		var decoded string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &decoded); err != nil {
			t.Fatal(err)
		}
		if quoted.Match(`"`+text+`"`) != plain.Match(decoded) {
			t.Fatalf("%q accepts %q, which is %q: %v", expression, text, decoded, quoted.Match(`"`+text+`"`))
		}
	})
}

func TestText(t *testing.T) {
	quoted := Options{Quoted: true}
	for _, tc := range []struct {
		least, most int
		o           Options
		text        string
		want        bool
	}{
		{2, 3, Options{}, "é", false}, {2, 3, Options{}, "éa", true}, {2, 3, Options{}, "éab", true}, {2, 3, Options{}, "éabc", false},
		{1, -1, Options{}, "", false}, {1, -1, Options{}, "aaaaaaaa", true}, {0, 0, Options{}, "", true}, {0, 0, Options{}, "a", false},
		{1, 1, quoted, `\n`, true}, {1, 1, quoted, "\n", false}, {1, 1, quoted, `\ud83d\ude00`, true}, {1, 1, quoted, `\ud83d`, false},
		{1, 1, quoted, `"`, false}, {1, 1, quoted, `\"`, true}, {1, 1, quoted, `\u12aF`, true}, {1, 1, quoted, "😀", true},
		{1, 1, Options{Quoted: true, Plain: true}, `\u0061`, false}, {1, 1, Options{Quoted: true, Plain: true}, `\u0001`, true},
		{1, 1, Options{Quoted: true, Plain: true}, `\/`, false}, {1, 1, Options{Quoted: true, Plain: true}, `\n`, true},
		{1, 1, Options{}, "\xff", false}, {1, 1, Options{}, "\xed\xa0\x80", false},
	} {
		if tc.o.Quoted {
			tc.text = `"` + tc.text + `"`
		}
		d, err := stringsOf(false, Bounds{tc.least, tc.most}, tc.o, Any())
		if err != nil || d.Match(tc.text) != tc.want {
			t.Errorf("%d to %d, %+v: %q, %v", tc.least, tc.most, tc.o, tc.text, err)
		}
	}
}

// Numbers are accepted as arithmetic says.
func TestNumbers(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,2})(\.[0-9]{1,3})?`)
	rapid.Check(t, func(t *rapid.T) {
		n := Numbers{Integer: rapid.Bool().Draw(t, "integer")}
		bound := func(name string) *Bound {
			if !rapid.Bool().Draw(t, name) {
				return nil
			}
			d, err := ParseDecimal(number.Draw(t, name))
			if err != nil {
				t.Fatal(err)
			}
			return &Bound{d, rapid.Bool().Draw(t, "exclusive")}
		}
		n.Low, n.High = bound("low"), bound("high")
		if rapid.Bool().Draw(t, "multiple") {
			d, err := ParseDecimal(rapid.SampledFrom([]string{"1", "3", "0.5", "0.01", "2.5", "10"}).Draw(t, "of"))
			if err != nil {
				t.Fatal(err)
			}
			n.MultipleOf = &d
		}
		d, err := n.DFA(budget())
		if err != nil && !errors.Is(err, ErrEmpty) {
			t.Fatal(err)
		}
		for range 20 {
			text := number.Draw(t, "text")
			if got, want := err == nil && d.Match(text), n.allows(text); got != want {
				t.Fatalf("%+v of %s to %s, multiples of %v: %s is %v, want %v", n.Integer, n.Low.text(), n.High.text(), n.MultipleOf, text, got, want)
			}
		}
	})
}

func (b *Bound) text() string {
	if b == nil {
		return "none"
	}
	return b.rat().FloatString(3)
}

func (d Decimal) rat() *big.Rat {
	r, _ := new(big.Rat).SetString(d.Whole + "." + d.Fraction + "0")
	if d.Negative {
		r.Neg(r)
	}
	return r
}

func (n Numbers) allows(text string) bool {
	v, _ := new(big.Rat).SetString(text)
	if n.Integer && strings.Contains(text, ".") {
		return false
	}
	if b := n.Low; b != nil && (v.Cmp(b.rat()) < 0 || b.Exclusive && v.Cmp(b.rat()) == 0) {
		return false
	}
	if b := n.High; b != nil && (v.Cmp(b.rat()) > 0 || b.Exclusive && v.Cmp(b.rat()) == 0) {
		return false
	}
	return n.MultipleOf == nil || new(big.Rat).Quo(v, n.MultipleOf.rat()).IsInt()
}

func TestParseDecimal(t *testing.T) {
	for text, want := range map[string]Decimal{
		"0": {Whole: "0"}, "-0": {Whole: "0"}, "-0.0e5": {Whole: "0"}, "12.50": {Whole: "12", Fraction: "5"}, "1e3": {Whole: "1000"},
		"-1.25E1": {Negative: true, Whole: "12", Fraction: "5"}, "5e-3": {Whole: "0", Fraction: "005"}, "120e-1": {Whole: "12"}, "0.5e+1": {Whole: "5"},
	} {
		if got, err := ParseDecimal(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "e5", "1e999999999", "1e-41", "x", "1.2.3", strings.Repeat("9", 41), "1e99999999999999999999"} {
		if d, err := ParseDecimal(text); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
}

// What would be large is refused, soon.
func TestBudget(t *testing.T) {
	var large *TooLargeError
	for _, expression := range []string{`(a|b)*a(a|b){30}`, `((a{0,100}){0,100}){0,100}`, `(\pL{0,500}){0,2}`, `(.{1,999}x){0,999}`} {
		if _, err := Regexp(budget(), expression, Options{}); !errors.As(err, &large) {
			t.Errorf("%s: %v", expression, err)
		}
	}
}

func TestRefused(t *testing.T) {
	for expression, says := range map[string]string{
		`a{100000000}`: "has no room", `a(?=b)`: "lookaheads", `(a)\1`: "references back", `\bword`: `\b`, `(?m)^a`: "(?m)", `[`: "missing closing",
	} {
		if _, err := Regexp(budget(), expression, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", expression, err, says)
		}
	}
	if _, err := Regexp(budget(), `a[^\x00-\x{10FFFF}]`, Options{}); !errors.Is(err, ErrEmpty) {
		t.Error(err)
	}
}

func TestSets(t *testing.T) {
	words, err := Literals(budget(), "a", "ab", "é")
	if err != nil {
		t.Fatal(err)
	}
	some, err := Regexp(budget(), `a.*`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	both, err1 := And(budget(), words, some)
	rest, err2 := Without(budget(), some, words)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][3]bool{
		"a": {true, true, false}, "ab": {true, true, false}, "é": {true, false, false}, "abc": {false, false, true}, "": {}, "ax": {false, false, true},
	} {
		if got := [3]bool{words.Match(text), both.Match(text), rest.Match(text)}; got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if words.Least(words.Start) != 1 {
		t.Errorf("%d bytes at least", words.Least(words.Start))
	}
}

// Whatever the expression is, it is refused or followed to an end, counted or not.
func FuzzRegexp(f *testing.F) {
	for _, seed := range []string{`^[a-z]+$`, `(a|b)*a(a|b){9}`, `\u00e9\d{2,}`, `[^"\\]`, `^$`, `(?i)k`, `^([a-z]{3}\.){17,40}[0-9]{0,400}$`, `(ab|a){20}b{30}`, `[\p{L}\d]{2,900}`} {
		f.Add(seed, true, true, true, 3, 700)
		f.Add(seed, true, false, false, 3, 700)
	}
	f.Fuzz(func(t *testing.T, expression string, quoted, search, counted bool, least, most int) {
		within := Bounds{max(0, least%1000), most % 1000}
		if counted {
			within = AnyLength
		}
		for _, read := range []func(string) (*Expression, error){Perl, ECMA} {
			e, err := read(expression)
			if err != nil {
				continue
			}
			if search {
				e = e.Anywhere()
			}
			if d, err := stringsOf(counted, within, Options{Quoted: quoted}, e); err == nil {
				followToEnd(t, d, expression)
			}
		}
	})
}

// followToEnd takes the shortest way to an end.
func followToEnd(t *testing.T, d *Strings, expression string) {
	t.Helper()
	at, count := d.Start()
	for steps := 0; !d.Accepts(at, count); steps++ {
		to, n, least := Dead, int32(0), d.Least(at, count)
		for b := range 256 {
			if next, c := d.Next(at, count, byte(b)); next != Dead && d.Least(next, c) < least {
				to, n, least = next, c, d.Least(next, c)
			}
		}
		if to == Dead {
			t.Fatalf("%q: stuck after %d bytes", expression, steps)
		}
		at, count = to, n
	}
}

// The beginning of a text without bytes is its end, in whichever order an expression asks.
func TestNoBytes(t *testing.T) {
	for expression, texts := range map[string]map[string]bool{
		"$^": {"": true, "a": false}, "(a|$)^": {"": true, "a": false}, "^$": {"": true, "a": false}, "(a|$^)b*": {"": true, "a": true, "ab": true, "b": false}, "(a$^)?": {"": true, "a": false},
	} {
		d, err := matching(expression, false, true, AnyLength, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range texts {
			if d.Match(text) != want || regexp.MustCompile(`^(?:`+expression+`)$`).MatchString(text) != want {
				t.Errorf("%q, %q: want %v", expression, text, want)
			}
		}
	}
}
