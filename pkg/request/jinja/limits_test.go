package jinja

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// renderWithin runs a template with less than usual, to be quick.
func renderWithin(b budget, source string) (Text, error) {
	template, err := Parse("test", source)
	if err != nil {
		return Text{}, err
	}
	return template.within(b, map[string]any{"s": Outside("x")})
}

// names are n different names with something behind each, and commas.
func names(n int, behind string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("v%d%s", i, behind)
	}
	return strings.Join(out, ",")
}

// A template that would run, or grow, without end ends in an error.
func TestLimits(t *testing.T) {
	tests := []struct{ name, source, want string }{
		{"loops in loops", "{% for i in range(99999) %}{% for j in range(999) %}x{% endfor %}{% endfor %}", "too long"},
		{"loops without text", "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "too long"},
		{"text", "{% for i in range(99999) %}" + strings.Repeat("x", 1000) + "{% endfor %}", "too"},
		{"doubling", "{% set ns = namespace(s='xxxxxxxx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "too much text"},
		{"doubling a list", "{% set ns = namespace(l=[1]) %}{% for i in range(99) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "too much text"},
		{"keeping", "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l, 'x' * 10000] %}{% endfor %}", "too"},
		{"repeating", "{{ 'x' * 99999999999 }}", "too much text"},
		{"repeating nothing", "{{ '' * 99999999999 }}{{ [] * 99999999999 }}!", "none"},
		{"replacing", "{{ ('x' * 99999).replace('', 'y' * 99999) }}", "too much text"},
		{"indenting", "{{ ('\\n' * 99999) | indent(99999, blank=true) }}", "too much text"},
		{"padding", "{{ 'x'.zfill(9999999999) }}", "too much text"},
		{"formatting", "{{ '%999d' % 1 }}", "none"},
		{"wide formatting", "{{ '%9999999d' % 1 }}", "too many values"},
		{"splitting", "{% for i in range(999) %}{% set x = ('x ' * 9999).split() %}{% endfor %}", "too much text"},
		{"splitting from the right", "{{ ('x ' * 8000).rsplit(' ') | length }}{{ ('x ' * 8000).rsplit() | length }}", "none"},
		{"many origins", "{% for i in range(2) %}{{ ((s ~ ',') * 4000).split(',') | length }}{{ ((s ~ ',') * 4000).replace(',', 'y') | length }}{% endfor %}", "none"},
		{"comparing", "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% if s == s + '' %}{% endif %}{% endfor %}", "too"},
		{"searching", "{% set s = 'x' * 999999 %}{% for i in range(99999) %}{% if 'y' in s %}{% endif %}{% endfor %}", "too long"},
		{"recursion", "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "deep"},
		{"two macros", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "deep"},
		{"defaults", "{% macro a(x=a()) %}{% endmacro %}{{ a() }}", "deep"},
		{"callers", "{% macro a() %}{{ caller() }}{% endmacro %}{% macro b() %}{% call a() %}{{ b() }}{% endcall %}{% endmacro %}{{ b() }}", "deep"},
		{"recursive loop", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "deep"},
		{"many calls", "{% macro a(n) %}{% if n %}{{ a(n - 1) }}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(90) }}", "too long"},
		{"itself", "{% set ns = namespace() %}{% set ns.l = [ns] %}{{ ns.l == ns.l }}{{ ns.l | tojson }}", "not JSON"},
		{"wide values", "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}", "too"},
		{"deep values", "{% set ns = namespace(l=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}", "nested"},
		{"deep equality", "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(200) %}{% set ns.l = [ns.l] %}{% set ns.m = [ns.m] %}{% endfor %}{{ ns.l == ns.m }}", "nested"},
		{"wide equality", "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}{{ ns.l == ns.m }}", "too long"},
		{"stripping", "{{ ('x' * 100000).strip('y' * 200000 ~ 'x') }}", "too much text"},
		{"prefixes", "{% set t = ('a',) * 100000 %}{% for i in range(3) %}{{ 'x'.startswith(t) }}{% endfor %}", "too long"},
		{"paths", "{{ [1] | sort(attribute=',' * 30000) }}{{ [1] | sort(attribute='.' * 30000) }}", "too much text"},
		{"without case", "{{ (['X' * 10000] * 1000) | sort | length }}", "too much text"},
		{"indenting other lines", "{% set x = ('\\r' * 1000) | indent(10000, blank=true) %}", "too much text"},
		{"separating", "{% set x = ([1] * 1000) | tojson(separators=('x' * 10000, ':')) %}", "too much text"},
		{"constants", "{% for i in range(11) %}{% if 0 %}" + strings.Repeat("{%elif 0%}", 20000) + "{% endif %}{% endfor %}", "too long"},
		{"scopes", strings.Repeat("{% with "+names(200, "=1")+" %}", 50) + "{% for i in range(999) %}{% if no %}{% endif %}{% endfor %}" + strings.Repeat("{% endwith %}", 50), "too long"},
		{"long keys", "{% set s = 'x' * 100000 %}{% for i in range(40) %}{% set d = {s: 1} %}{% endfor %}", "too long"},
		{"long keys looked up", "{% set s = 'x' * 100000 %}{% set d = {'x': 1} %}{% for i in range(40) %}{{ d.get(s) }}{% endfor %}", "too long"},
		{"long items", "{{ (['x' * 100000] * 40) | unique(case_sensitive=true) | list | length }}", "too long"},
		{"pieces", "{% set x = (s ~ ',') * 200000 %}", "too much text"},
		{"rounding", "{% for i in range(999) %}{% set x = 1.5e300 | round(300) %}{% endfor %}", "too long"},
		{"digits", "{{ ('1' * 300000) | float }}", "too long"},
		{"parameters", "{% macro m(" + names(201, "") + ") %}{% endmacro %}", "parameters"},
		{"named arguments", "{{ dict(" + names(201, "=1") + ") }}", "arguments with names"},
		{"conditions", "{{ 1" + strings.Repeat(" if 1", 1<<10) + " }}", "terms"},
		{"terms in terms", "{{ (1" + strings.Repeat(" + 1", 600) + ")" + strings.Repeat(" + 1", 600) + " }}", "terms"},
		{"terms in tags", strings.Repeat("{{ 1"+strings.Repeat(" + 1", 600)+" }}", 3), "none"},
		{"padding to less than nothing", "{{ 'x'.zfill(-9223372036854775807 - 1) }}", "none"},
		{"integer of a large float", "{{ '%d' % 1e300 }}", "64 bits"},
		{"source", strings.Repeat("{{ 1 }}", 1<<16), "above the limit"},
		{"parentheses", "{{ " + strings.Repeat("(", 1<<12), "nested"},
		{"lists", "{{ " + strings.Repeat("[", 150) + strings.Repeat("]", 150) + " }}", "nested"},
		{"minus", "{{ " + strings.Repeat("- ", 1<<12) + "1 }}", "nested"},
		{"not", "{{ " + strings.Repeat("not ", 1<<11) + "1 }}", "nested"},
		{"else", "{{ " + strings.Repeat("1 if 0 else ", 1<<11) + "1 }}", "nested"},
		{"tags", strings.Repeat("{% if 1 %}", 6000), "nested"},
		{"terms", "{{ 1" + strings.Repeat("+ 1", 1<<12) + " }}", "terms"},
		{"subscripts", "{{ messages" + strings.Repeat("[0]", 1<<12) + " }}", "terms"},
		{"filters", "{{ 1" + strings.Repeat("|int", 1<<12) + " }}", "terms"},
		{"range", "{{ range(0, 5, 0) }}", "step is 0"},
		{"range over the end", "{{ range(9223372036854775800, 9223372036854775807, 5) | list }}!", "none"},
		{"power", "{{ 3 ** 99999999999 }}", "64 bits"},
		{"sum", "{{ 9223372036854775807 + 1 }}", "64 bits"},
		{"product", "{{ 9223372036854775807 * 2 }}", "64 bits"},
		{"not UTF-8", "a\xffb", "UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := renderWithin(budget{200_000, 3 << 20, maxCalls}, tt.source)
			if tt.want == "none" {
				if err != nil || got.s == "" {
					t.Errorf("%q, %v", got.s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.80q, %v, want an error with %q", got.s, err, tt.want)
			}
		})
	}
}

func TestErrorsHaveLines(t *testing.T) {
	tests := []struct {
		source, want string
		line         int
	}{
		{"a\n{% if true %}\n{{ 'x' + 1 }}{% endif %}", "a string and an integer have no +", 3},
		{"\n{% for m in messages %}\n\n{{ 'a' + nothing }}\n{% endfor %}", `"nothing" is undefined`, 4},
		{"{% set x = 1 %}\n\n{% bad %}", `unknown tag "bad"`, 3},
		{"a\n\n{{ 'open", "a string has no end", 3},
		{"\n{% macro m(a) %}\n{{ a.b.c }}\n{% endmacro %}\n{{ m({}) }}", `has no attribute "b"`, 3},
		{"{% if x %}\n\n", "the template ends where", 1},
		{"\r\n{{ messages | map('nope') | list }}", `there is no filter "nope"`, 2},
		{"\n\n{{ raise_exception('no ' ~ 1) }}", "no 1", 3},
	}
	for _, tt := range tests {
		_, err := render(tt.source, map[string]any{"messages": NewList(NewDict())})
		var e *Error
		if !errors.As(err, &e) || e.Line != tt.line && tt.line > 1 || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want line %d and %q", tt.source, err, tt.line, tt.want)
		}
		var raised *Raised
		if got := errors.As(err, &raised); got != strings.Contains(tt.source, "raise_exception") {
			t.Errorf("%q: raised %v", tt.source, got)
		}
	}
}

// What comes as JSON is bounded by what it takes decoded, and is what was sent.
func TestFromJSONRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"[" + strings.Repeat("1,", maxValues) + "1]":          "values",
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000): "nested",
		`["\udead"]`:                    "surrogate",
		`[1] [2]`:                       "more follows",
		`{"a": 1, "b": 2, "\u0061": 3}`: `key "a" is there twice`,
		`[{"b": {"a": 1, "a": 1}}]`:     `key "a" is there twice`,
	} {
		if _, err := FromJSON([]byte(raw)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", raw, err, want)
		}
	}
}
