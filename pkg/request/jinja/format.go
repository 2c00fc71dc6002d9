package jinja

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pad is zfill, ljust, rjust or center.
func (r *run) pad(t Text, name string, a args) (value, error) {
	given, err := a.bind(name, "width fillchar?")
	if err != nil {
		return nil, err
	}
	width, err := integer(given[0], 0)
	if err != nil {
		return nil, err
	}
	fill, err := texts(given[1], map[bool]string{true: "0", false: " "}[name == "zfill"])
	if err != nil || utf8.RuneCountInString(fill.s) != 1 {
		return nil, firstOf(err, errors.New("what fills is not one character"))
	}
	n := max(0, max(0, width)-utf8.RuneCountInString(t.s))
	if err := r.make(product(n, fill.size()) + t.size()); err != nil {
		return nil, err
	}
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
	return w.text(), nil
}

// conversion is one of the % operator: flags, width, precision, kind.
var conversion = regexp.MustCompile(`%([-+ 0]*)(\d{0,3})(?:\.(\d{1,2}))?([a-zA-Z%])`)

// format is Python's string % values, with %s, %r, %d, %i, %f, %e, %g, %x and %%.
func (r *run) format(t Text, v value) (value, error) {
	values := []value{v}
	if l, ok := v.(*List); ok && l.kind == tuple {
		values = l.items
	}
	if err := r.makeItems(len(t.s)); err != nil { // of all matches
		return nil, err
	}
	var w textWriter
	at := 0
	for _, m := range conversion.FindAllStringSubmatchIndex(t.s, -1) {
		if err := r.step(4); err != nil {
			return nil, err
		}
		w.add(t.slice(at, m[0]))
		at = m[1]
		if t.s[m[1]-1] == '%' {
			w.WriteString("%")
			continue
		}
		if len(values) == 0 {
			return nil, errors.New("too few values for %")
		}
		out, err := r.convert(t.s[m[0]:m[1]-1], t.s[m[1]-1], values[0])
		if err == nil {
			err = r.put(&w, out)
		}
		if err != nil {
			return nil, err
		}
		values = values[1:]
	}
	if len(values) > 0 {
		return nil, errors.New("too many values for %")
	}
	w.add(t.slice(at, len(t.s)))
	return w.text(), nil
}

// convert writes one value as %<flags><kind> asks for it.
func (r *run) convert(flags string, kind byte, v value) (Text, error) {
	switch kind {
	case 's', 'r':
		t, err := r.str(v)
		if kind == 'r' {
			var w textWriter
			err = r.repr(&w, v, 0)
			t = w.text()
		}
		return t.as(fmt.Sprintf(flags+"s", t.s)), err
	case 'd', 'i', 'x', 'X', 'o':
		n, ok := whole(v)
		if f, isFloat := v.(float64); isFloat && kind <= 'i' {
			if !(math.Abs(f) < 1<<63) { // NaN neither
				return Text{}, errOverflow
			}
			n, ok = int(f), true
		}
		if !ok {
			return Text{}, fmt.Errorf("%s is no integer", typeName(v))
		}
		return Inside(fmt.Sprintf(flags+strings.Replace(string(kind), "i", "d", 1), n)), nil
	case 'f', 'F', 'e', 'E', 'g', 'G':
		f, ok := number(v)
		if !ok {
			return Text{}, fmt.Errorf("%s is no number", typeName(v))
		}
		if !strings.Contains(flags, ".") {
			flags += ".6"
		}
		return Inside(fmt.Sprintf(flags+string(kind), f)), nil
	}
	return Text{}, fmt.Errorf("unknown conversion %%%c", kind)
}

func formatFilter(r *run, v value, a args) (value, error) {
	t, err := r.str(v)
	if err != nil || len(a.names) > 0 {
		return nil, firstOf(err, errors.New("values with names are not there"))
	}
	return r.format(t, newTuple(a.values...))
}

// field is one of str.format: {}, {0} or {name}; doubled braces are braces.
var field = regexp.MustCompile(`\{\{|\}\}|\{(\w*)\}`)

// formatMethod is str.format without conversions and specifications.
func formatMethod(r *run, t Text, a args) (value, error) {
	if err := r.makeItems(len(t.s)); err != nil { // of all matches
		return nil, err
	}
	var w textWriter
	at, next := 0, 0
	for _, m := range field.FindAllStringSubmatchIndex(t.s, -1) {
		w.add(t.slice(at, m[0]))
		at = m[1]
		if m[2] < 0 {
			w.add(t.slice(m[0], m[0]+1))
			continue
		}
		v, err := a.field(t.s[m[2]:m[3]], &next)
		if err == nil {
			err = r.step(1 + len(a.names))
		}
		if err != nil {
			return nil, err
		}
		if err := r.putValue(&w, v); err != nil {
			return nil, err
		}
	}
	if strings.ContainsAny(field.ReplaceAllString(t.s, ""), "{}") {
		return nil, errors.New("of fields only {}, {0} and {name} are there")
	}
	w.add(t.slice(at, len(t.s)))
	return w.text(), nil
}

// field is the argument that a field names; next counts those without a name.
func (a args) field(name string, next *int) (value, error) {
	i, err := strconv.Atoi(name)
	if name == "" {
		i, err = *next, nil
		*next++
	}
	if err == nil {
		if i < 0 || i >= len(a.values) {
			return nil, fmt.Errorf("there is no argument %d", i)
		}
		return a.values[i], nil
	}
	v, ok, err := a.take(name)
	if err == nil && !ok {
		err = fmt.Errorf("there is no argument %q", name)
	}
	return v, err
}
