package jinja

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// strange are characters that no template has: wherever they are, they came from outside.
const strange = "龍龜 鬱\n鼎"

// What a text came from is known whatever a template does with it.
func TestOrigin(t *testing.T) {
	tests := []string{
		"{{ s }}", "<{{ s }}>", "{{ '<' + s + '>' }}", "{{ 'a' ~ s ~ 'b' ~ s }}", "{{ s * 3 }}", "{{ s.strip() }}{{ s | trim }}", "{{ s[1:3] }}{{ s[::-1] }}{{ s[0] }}{{ s[-1] }}",
		"{% for c in s %}{{ c }},{% endfor %}", "{{ s.split()[0] }}|{{ s.split('\\n') | join('-') }}|{{ s.rsplit(' ', 1)[-1] }}|{{ s.partition(' ')[2] }}",
		"{{ s.replace(' ', 'x') }}{{ 'abc'.replace('b', s) }}", "{{ s | upper }}{{ s.lower() }}{{ s.title() }}{{ s | capitalize }}", "{{ s | tojson }}{{ [s, {s: s}] | tojson(indent=2) }}",
		"{{ [s] }}{{ {s: 1} }}{{ (s,) }}", "{{ s | indent(2, true) }}{{ s | e }}{{ s | string }}{{ s | list }}", "{{ '%s-%s' % (s, 'x') }}{{ '{}{}'.format('x', s) }}{{ '%s' | format(s) }}",
		"{% set x %}<{{ s }}>{% endset %}{{ x }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m(s) }}{{ m(s).strip('[]') }}", "{{ d.items() | list }}{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{{ d | tojson }}",
		"{{ [s, 'b', s] | join(', ') }}{{ ', '.join([s, 'b']) }}{{ s ~ 'x' | upper }}", "{% set ns = namespace(x='') %}{% for i in range(3) %}{% set ns.x = ns.x + s %}{% endfor %}{{ ns.x }}",
		"{{ s.zfill(30) }}{{ s.center(40, '.') }}{{ s.splitlines() | first }}{{ s.removeprefix('x') }}", "{% filter upper %}a{{ s }}{% endfilter %}", "{{ s if s else 'x' }}{{ s or 'x' }}{{ none | default(s) }}",
	}
	variables := map[string]any{"s": Outside(strange)}
	d := NewDict()
	d.put(Outside(strange), strange, Outside(strange))
	variables["d"] = d
	for _, source := range tests {
		got, err := render(source, variables)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if !strings.Contains(got.s, "龍") {
			t.Errorf("%s: nothing of the text is in %q", source, got.s)
		}
		checkOrigin(t, source, got)
	}
}

func checkOrigin(t *testing.T, source string, got Text) {
	t.Helper()
	checkSpans(t, got)
	got.Pieces(func(s string, outside bool) {
		for _, c := range s {
			han := unicode.Is(unicode.Han, c)
			if han && !outside || !han && outside && strings.ContainsRune("<>[]{}abc-,'\"", c) {
				t.Errorf("%s: %q in %q counts as from outside: %v", source, c, got.s, outside)
			}
		}
	})
}

// checkSpans finds spans that are empty, touch, or cut a character in two.
func checkSpans(t *testing.T, got Text) {
	t.Helper()
	at := -1
	for _, p := range got.outside {
		if p.Start <= at || p.End <= p.Start || p.End > len(got.s) || !utf8.ValidString(got.s[p.Start:p.End]) {
			t.Fatalf("%q has spans %v", got.s, got.outside)
		}
		at = p.End
	}
}

func FuzzRender(f *testing.F) {
	g, variables := readGolden(f)
	for _, c := range g.Cases {
		f.Add(c.Source)
	}
	variables["strange"] = Outside(strange)
	f.Fuzz(func(t *testing.T, source string) {
		got, err := render(source, variables)
		if err != nil {
			return
		}
		checkSpans(t, got)
		if !utf8.ValidString(got.s) {
			t.Fatalf("%q is not UTF-8", got.s)
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, 2.5, "x", null, true], "b": {}}`, `{"a": 1, "a": 2}`, `[1e400]`, `[[[[`, `{"a"}`, `"\ud800"`, `123456789012345678901`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		v, err := FromJSON([]byte(raw))
		if err != nil {
			return
		}
		out := toJSON(&run{budget: newBudget(len(raw))}, v, args{})
		again, err := FromJSON([]byte(textOf(out)))
		if err != nil {
			t.Fatalf("%s became %s: %v", raw, out, err)
		}
		if !(&run{budget: newBudget(len(raw))}).equal(v, again, 0) {
			t.Fatalf("%s became %s, which is another value", raw, out)
		}
	})
}
