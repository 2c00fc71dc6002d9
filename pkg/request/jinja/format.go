package jinja

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pad is zfill, ljust, rjust or center.
func (r *run) pad(t Text, name string, a args) value {
	given := a.bind(name, "width fillchar?")
	width := integer(given[0], 0)
	fill := texts(given[1], map[bool]string{true: "0", false: " "}[name == "zfill"])
	if utf8.RuneCountInString(fill.s) != 1 {
		panic(failf("what fills is not one character"))
	}
	n := max(0, max(0, width)-utf8.RuneCountInString(t.s))
	r.make(product(n, fill.size()) + t.size())
	left, right := 0, n
	signed := 0
	switch name {
	case "zfill":
		if left, right = n, 0; t.s != "" && (t.s[0] == '-' || t.s[0] == '+') {
			signed = 1
		}
	case "rjust":
		left, right = n, 0
	case "center":
		left = n/2 + n&width&1
		right = n - left
	}
	var w textWriter
	w.add(t.slice(0, signed))
	w.add(fill.as(strings.Repeat(fill.s, left)))
	w.add(t.slice(signed, len(t.s)))
	w.add(fill.as(strings.Repeat(fill.s, right)))
	return w.text()
}

// conversion is one of the % operator: flags, width, precision, kind.
var conversion = regexp.MustCompile(`%([-+ 0]*)(\d{0,3})(?:\.(\d{1,2}))?([a-zA-Z%])`)

// format is Python's string % values, with %s, %r, %d, %i, %f, %e, %g, %x and %%.
func (r *run) format(t Text, v value) value {
	values := []value{v}
	if l, ok := v.(*List); ok && l.kind == tuple {
		values = l.items
	}
	r.makeItems(len(t.s)) // of all matches
	var w textWriter
	at := 0
	for _, m := range conversion.FindAllStringSubmatchIndex(t.s, -1) {
		r.step(4)
		w.add(t.slice(at, m[0]))
		at = m[1]
		if t.s[m[1]-1] == '%' {
			w.WriteString("%")
			continue
		}
		if len(values) == 0 {
			panic(failf("too few values for %%"))
		}
		r.put(&w, r.convert(t.s[m[0]:m[1]-1], t.s[m[1]-1], values[0]))
		values = values[1:]
	}
	if len(values) > 0 {
		panic(failf("too many values for %%"))
	}
	w.add(t.slice(at, len(t.s)))
	return w.text()
}

// convert writes one value as %<flags><kind> asks for it.
func (r *run) convert(flags string, kind byte, v value) Text {
	switch kind {
	case 's', 'r':
		t := r.str(v)
		if kind == 'r' {
			var w textWriter
			r.repr(&w, v, 0)
			t = w.text()
		}
		return t.as(fmt.Sprintf(flags+"s", t.s))
	case 'd', 'i', 'x', 'X', 'o':
		n, ok := whole(v)
		if f, isFloat := v.(float64); isFloat && kind <= 'i' {
			if !(math.Abs(f) < 1<<63) { // NaN neither
				panic(failure{errOverflow})
			}
			n, ok = int(f), true
		}
		if !ok {
			panic(failf("%s is no integer", typeName(v)))
		}
		return Inside(fmt.Sprintf(flags+strings.Replace(string(kind), "i", "d", 1), n))
	case 'f', 'F', 'e', 'E', 'g', 'G':
		f, ok := number(v)
		if !ok {
			panic(failf("%s is no number", typeName(v)))
		}
		if !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return Inside(fmt.Sprintf(flags+string(kind), f))
	}
	panic(failf("unknown conversion %%%c", kind))
}

func formatFilter(r *run, v value, a args) value {
	t := r.str(v)
	if len(a.names) > 0 {
		panic(failf("values with names are not there"))
	}
	return r.format(t, newTuple(a.values...))
}

// field is one of str.format: {}, {0} or {name}; doubled braces are braces.
var field = regexp.MustCompile(`\{\{|\}\}|\{(\w*)\}`)

// formatMethod is str.format without conversions and specifications.
func formatMethod(r *run, t Text, a args) value {
	r.makeItems(len(t.s)) // of all matches
	var w textWriter
	at, next := 0, 0
	for _, m := range field.FindAllStringSubmatchIndex(t.s, -1) {
		w.add(t.slice(at, m[0]))
		at = m[1]
		if m[2] < 0 {
			w.add(t.slice(m[0], m[0]+1))
			continue
		}
		v := a.field(t.s[m[2]:m[3]], &next)
		r.step(1 + len(a.names))
		r.putValue(&w, v)
	}
	if strings.ContainsAny(field.ReplaceAllString(t.s, ""), "{}") {
		panic(failf("of fields only {}, {0} and {name} are there"))
	}
	w.add(t.slice(at, len(t.s)))
	return w.text()
}

// field returns the argument that a field names; next counts those without a name.
func (a args) field(name string, next *int) value {
	i, err := strconv.Atoi(name)
	if name == "" {
		i, err = *next, nil
		*next++
	}
	if err == nil {
		if i < 0 || i >= len(a.values) {
			panic(failf("there is no argument %d", i))
		}
		return a.values[i]
	}
	v, ok := a.take(name)
	if !ok {
		panic(failf("there is no argument %q", name))
	}
	return v
}
