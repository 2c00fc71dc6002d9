package words

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"
)

// texts draws strings that are hard to split.
var texts = rapid.StringOf(rapid.SampledFrom([]rune(" \n\r\t'sStTlLrReEvVdDmMaZéßſ漢字々〇⺀ǅʰあア0129٣½.,!<|>/\u00a0\u3000\u0085\u200d\u0301\x00😀\ufffd")))

// inNET writes a pattern as the engine takes it: it knows no possessive
// quantifiers and no intersections, and takes $ for a place before a newline.
var inNET = strings.NewReplacer("++$", "+\\z", "++", "+", "?+", "?", "{1,3}+", "{1,3}", "*+", "*",
	`\p{M}&&[^\p{Han}]]`, `\p{M}-[\p{IsHan}]]`, `[\p{Han}]`, `[\p{IsHan}]`)

func engineFor(pattern string) engine {
	return engine{regexp2.MustCompile(inNET.Replace(pattern), regexp2.None)}
}

func TestScannersMatchTheirPatterns(t *testing.T) {
	for pattern, name := range nameOf {
		if name == "kimi" {
			continue // no engine here has its intersections; TestKimi
		}
		t.Run(name, func(t *testing.T) {
			scan, _ := Named(name)
			rapid.Check(t, func(t *rapid.T) {
				// The engine knows no ſ as an S of any case; tokenizers does, and
				// the golden texts cover it.
				text := strings.ReplaceAll(texts.Draw(t, "text"), "'ſ", "ſ")
				want, got := matches(t, engineFor(pattern), text), matches(t, scan, text)
				if !slices.Equal(got, want) {
					t.Fatalf("%q with %s:\ngot  %q\nwant %q", text, pattern, got, want)
				}
			})
		})
	}
}

func matches(t *rapid.T, s Splitter, text string) (out []string) {
	err := s.Each(text, func(start, end int) error { out = append(out, text[start:end]); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Han characters are cut out first; without them, Kimi's pattern is o200k's but
// for the slash.
func TestKimi(t *testing.T) {
	kimi, _ := Named("kimi")
	alike := strings.ReplaceAll(o200k, "/]*", "]*")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ReplaceAll(texts.Draw(t, "text"), "'ſ", "ſ")
		bare := strings.Map(func(r rune) rune {
			if Classes().Of(r)&Han != 0 {
				return 'x'
			}
			return r
		}, text)
		if got, want := matches(t, kimi, bare), matches(t, engineFor(alike), bare); !slices.Equal(got, want) {
			t.Fatalf("%q:\ngot  %q\nwant %q", bare, got, want)
		}
		for _, word := range matches(t, kimi, text) {
			if han := Classes().run(word, 0, Han); han > 0 && han < len(word) {
				t.Fatalf("%q: %q is more than Han characters", text, word)
			}
		}
	})
}

func TestRunsMatchTheirPatterns(t *testing.T) {
	for _, pattern := range []string{
		`\p{N}`, `\p{N}+`, `\p{N}{1,3}`, "[\r\n]", `\s?[A-Za-zß-öʰ]+`, `\s?[!-/:-~！-／　-。]+`, `\s+$`, `[一-龥぀-ゟ゠-ヿ]+`, `[^\s\p{L}]+`, `\s?\p{P}+`, `[0-9a\-]{2,4}`, `[a-hb-dg-zß-é]+`,
	} {
		s, ok := parseRun(pattern)
		if !ok {
			t.Errorf("%s is not read", pattern)
			continue
		}
		re := engine{regexp2.MustCompile(strings.ReplaceAll(pattern, "$", `(?=\n|\z)`), regexp2.None)}
		rapid.Check(t, func(t *rapid.T) {
			text := texts.Draw(t, "text")
			if got, want := matches(t, s, text), matches(t, re, text); !slices.Equal(got, want) {
				t.Fatalf("%q with %s:\ngot  %q\nwant %q", text, pattern, got, want)
			}
		})
	}
}

func TestNoRuns(t *testing.T) {
	for _, pattern := range []string{"", "a", "a+", "[a", "[]", "[^", `\p{`, `\p{Lu}`, `\d+`, `[a]*`, `[a]{2}`, `[a]{3,2}`, `[a]+?`, `[a]+b`, `[b-a]`, `[[:alpha:]]`, `[a&&b]`, `(a)`, `[a]?`, `[\`} {
		if _, ok := parseRun(pattern); ok {
			t.Errorf("%q is taken for a run", pattern)
		}
	}
}

func TestBehaviors(t *testing.T) {
	tests := []struct {
		behavior Behavior
		invert   bool
		want     []string
	}{
		{Isolated, false, []string{"-", "-", "ab", "-", "c", "-", "-"}},
		{Removed, false, []string{"ab", "c"}},
		{Removed, true, []string{"-", "-", "-", "-", "-"}},
		{MergedWithPrevious, false, []string{"-", "-", "ab-", "c-", "-"}},
		{MergedWithNext, false, []string{"-", "-ab", "-c", "-", "-"}},
		{MergedWithNext, true, []string{"-", "-", "ab-", "c-", "-"}},
		{Contiguous, false, []string{"--", "ab", "-", "c", "--"}},
	}
	for _, tt := range tests {
		var got []string
		c := NewCutter(Literal("-"), tt.behavior, tt.invert, func(part string) error { got = append(got, part); return nil })
		err := c.Cut("--ab-c--")
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s, invert %v: got %q, %v, want %q", tt.behavior, tt.invert, got, err, tt.want)
		}
	}
	if Behavior("Sideways").Check() == nil {
		t.Error("an unknown behavior is taken")
	}
}

func TestSlowPatternsAreCutOff(t *testing.T) {
	re := regexp2.MustCompile(`(a+)+$`, regexp2.None)
	re.MatchTimeout = 50 * time.Millisecond
	err := engine{re}.Each(strings.Repeat("a", 40)+"b", func(int, int) error { return nil }) // hours, if it is not
	if err == nil || !strings.Contains(err.Error(), "match timeout") {
		t.Error(err)
	}
}
