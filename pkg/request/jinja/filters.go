package jinja

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// filter is what stands after |.
type filter func(r *run, v value, a args) (value, error)

// filterNamed finds a filter; nil if there is none. Those of Jinja that make
// HTML, or break texts into lines and columns, are not there: no chat template
// uses them.
func filterNamed(name string) filter {
	switch name {
	case "abs":
		return absolute
	case "title":
		return titleFilter
	case "capitalize", "lower", "upper":
		return func(r *run, v value, a args) (value, error) { return r.textMethod(v, name, a) }
	case "d", "default":
		return orDefault
	case "e", "escape":
		return escapeHTML
	case "float":
		return toFloat
	case "format":
		return formatFilter
	case "indent":
		return indent
	case "int":
		return toInt
	case "replace":
		return func(r *run, v value, a args) (value, error) { return r.textMethod(v, "replace", a) }
	case "round":
		return round
	case "safe", "string":
		return func(r *run, v value, _ args) (value, error) { return r.str(v) }
	case "tojson":
		return toJSON
	case "trim":
		return func(r *run, v value, a args) (value, error) { return r.textMethod(v, "strip", a) }
	}
	return listFilterNamed(name)
}

// textMethod applies a string's method to a value as a string.
func (r *run) textMethod(v value, name string, a args) (value, error) {
	t, err := r.str(v)
	if err != nil {
		return nil, err
	}
	if name == "strip" && len(a.names) == 1 && a.names[0] == "chars" {
		a = args{values: a.named}
	}
	if name == "replace" {
		if a.values, err = r.numbersAsText(a.values); err != nil {
			return nil, err
		}
	}
	return method(t, name)(r, a)
}

// numbersAsText makes strings of integers among the first two values.
func (r *run) numbersAsText(values []value) ([]value, error) {
	out := slices.Clone(values)
	for i := range out[:min(len(out), 2)] {
		if _, ok := whole(out[i]); !ok {
			continue
		}
		var err error
		if out[i], err = r.str(out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func orDefault(_ *run, v value, a args) (value, error) {
	given, err := a.bind("default", "default_value? boolean?")
	if err != nil {
		return nil, err
	}
	_, missing := v.(undefined)
	if !missing && (truth(v) || !flag(given[1])) {
		return v, nil
	}
	if given[0] == (absent{}) {
		return Text{}, nil
	}
	return given[0], nil
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(r *run, v value, _ args) (value, error) {
	t, err := r.str(v)
	if err == nil {
		err = r.make(5 * len(t.s))
	}
	return t.mapped(htmlEscapes.Replace), err
}

// titleFilter makes the first character of each word large and the others small;
// unlike for the method of that name, an apostrophe ends no word.
func titleFilter(r *run, v value, _ args) (value, error) {
	t, err := r.str(v)
	if err == nil {
		err = r.make(3 * len(t.s))
	}
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	first := true
	for _, c := range t.s {
		if first {
			b.WriteString(upper(string(c)))
		} else {
			b.WriteString(strings.ToLower(string(c)))
		}
		first = isSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return t.as(b.String()), nil
}

func absolute(_ *run, v value, _ args) (value, error) {
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	n, ok := whole(v)
	if !ok {
		return nil, fmt.Errorf("%s is no number", typeName(v))
	}
	return max(n, -n), overflow(n != math.MinInt)
}

// toInt is int(default=0, base=10).
func toInt(r *run, v value, a args) (value, error) {
	given, err := a.bind("int", "default? base?")
	if err == nil {
		err = r.step(1 + len(textOf(v)))
	}
	if err != nil {
		return nil, err
	}
	preset := given[0]
	if preset == (absent{}) {
		preset = 0
	}
	base, err := integer(given[1], 10)
	if err != nil {
		return nil, err
	}
	if n, ok := whole(v); ok {
		return n, nil
	}
	f, ok := v.(float64)
	if t, isText := v.(Text); isText {
		s := strings.ToLower(strings.TrimFunc(t.s, isSpace))
		if n, err := strconv.ParseInt(strings.TrimPrefix(s, map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]), base, 64); err == nil {
			return int(n), nil
		}
		f, err = strconv.ParseFloat(s, 64)
		ok = err == nil
	}
	if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return preset, nil
	}
	return int(f), nil
}

func toFloat(r *run, v value, a args) (value, error) {
	given, err := a.bind("float", "default?")
	if err == nil {
		err = r.step(1 + len(textOf(v)))
	}
	if err != nil {
		return nil, err
	}
	if f, ok := number(v); ok {
		return f, nil
	}
	if t, ok := v.(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(t.s, isSpace), 64); err == nil {
			return f, nil
		}
	}
	if given[0] == (absent{}) {
		return 0.0, nil
	}
	return given[0], nil
}

// round is round(precision=0, method='common'): half goes to even, as in Python.
func round(r *run, v value, a args) (value, error) {
	given, err := a.bind("round", "precision? method?")
	if err != nil {
		return nil, err
	}
	f, ok := number(v)
	if !ok {
		return nil, fmt.Errorf("%s is no number", typeName(v))
	}
	precision, err := integer(given[0], 0)
	if err != nil {
		return nil, err
	}
	how, err := texts(given[1], "common")
	if err != nil {
		return nil, err
	}
	if n, ok := whole(v); ok && how.s == "common" {
		return n, nil
	}
	if err := r.step(1 + max(precision, 0)); err != nil {
		return nil, err
	}
	return roundFloat(f, precision, how.s)
}

func roundFloat(f float64, precision int, how string) (value, error) {
	if precision < 0 || precision > 300 {
		return nil, errors.New("precision is not 0 to 300")
	}
	scale := math.Pow(10, float64(precision))
	switch how {
	case "common":
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return rounded, err
	case "ceil":
		return math.Ceil(f*scale) / scale, nil
	case "floor":
		return math.Floor(f*scale) / scale, nil
	}
	return nil, errors.New("method is not common, ceil or floor")
}

// indent is indent(width=4, first=False, blank=False).
func indent(r *run, v value, a args) (value, error) {
	given, err := a.bind("indent", "width? first? blank?")
	if err != nil {
		return nil, err
	}
	t, err := r.str(v)
	if err != nil {
		return nil, err
	}
	by, ok := given[0].(Text)
	if !ok {
		n, err := integer(given[0], 4)
		if err != nil || n > maxSource {
			return nil, firstOf(err, errMade)
		}
		by = Inside(strings.Repeat(" ", max(n, 0)))
	}
	if err := r.make(t.size() + product(countLines(t.s)+1, by.size())); err != nil {
		return nil, err
	}
	return indented(t, by, flag(given[1]), flag(given[2])), nil
}

// indented puts by before the lines but the first and, without blank, those that are
// empty. Whatever ends a line becomes a newline, as in Jinja.
func indented(t, by Text, first, blank bool) Text {
	var w textWriter
	if first {
		w.add(by)
	}
	for at := 0; ; {
		stop, next := lineAt(t.s, at)
		if at > 0 {
			w.WriteString("\n")
		}
		if at > 0 && (blank || at < stop) {
			w.add(by)
		}
		w.add(t.slice(at, stop))
		if at = next; stop == len(t.s) {
			break
		}
	}
	return w.text()
}

// countLines is the number of the ends of lines.
func countLines(s string) (n int) {
	for _, c := range s {
		if endsLine(c) {
			n++
		}
	}
	return n
}

// lineAt is where the line that begins at a place ends, and where the next one begins.
func lineAt(s string, at int) (stop, next int) {
	n := strings.IndexFunc(s[at:], endsLine)
	if n < 0 {
		return len(s), len(s)
	}
	stop = at + n
	if strings.HasPrefix(s[stop:], "\r\n") {
		return stop, stop + 2
	}
	_, size := utf8.DecodeRuneInString(s[stop:])
	return stop, stop + size
}
