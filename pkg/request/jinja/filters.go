package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filter func(r *run, v value, a args) value

// filters are those that there are. Those of Jinja that make HTML, or break texts into lines and columns, are not: no
// chat template uses them.
var filters map[string]filter

func init() {
	method := func(name string) filter {
		return func(r *run, v value, a args) value { return r.textMethod(v, name, a) }
	}
	str := func(r *run, v value, _ args) value { return r.str(v) }
	filters = map[string]filter{
		"abs": absolute, "d": orDefault, "default": orDefault, "e": escapeHTML, "escape": escapeHTML, "float": toFloat, "format": formatFilter,
		"indent": indent, "int": toInt, "round": round, "safe": str, "string": str, "title": titleFilter, "tojson": toJSON,
		"capitalize": method("capitalize"), "lower": method("lower"), "upper": method("upper"), "replace": method("replace"), "trim": method("strip"),

		"count": length, "length": length, "dictsort": dictSort, "items": itemsFilter, "join": join, "map": mapFilter, "reverse": reverse,
		"sort": sortFilter, "sum": sum, "unique": unique,
		"first":      func(r *run, v value, _ args) value { return r.endOf(v, false) },
		"last":       func(r *run, v value, _ args) value { return r.endOf(v, true) },
		"list":       func(r *run, v value, _ args) value { return r.listed(v) },
		"max":        func(r *run, v value, a args) value { return r.extreme(v, true, a) },
		"min":        func(r *run, v value, a args) value { return r.extreme(v, false, a) },
		"select":     func(r *run, v value, a args) value { return r.choose(v, false, false, a) },
		"reject":     func(r *run, v value, a args) value { return r.choose(v, false, true, a) },
		"selectattr": func(r *run, v value, a args) value { return r.choose(v, true, false, a) },
		"rejectattr": func(r *run, v value, a args) value { return r.choose(v, true, true, a) },
	}
}

// textMethod applies a string's method to a value as a string.
func (r *run) textMethod(v value, name string, a args) value {
	t := r.str(v)
	if name == "strip" && len(a.names) == 1 && a.names[0] == "chars" {
		a = args{values: a.named}
	}
	if name == "replace" {
		a.values = r.numbersAsText(a.values)
	}
	return method(t, name)(r, a)
}

// numbersAsText makes strings of integers among the first two values.
func (r *run) numbersAsText(values []value) []value {
	out := slices.Clone(values)
	for i := range out[:min(len(out), 2)] {
		if _, ok := whole(out[i]); !ok {
			continue
		}
		out[i] = r.str(out[i])
	}
	return out
}

func orDefault(_ *run, v value, a args) value {
	given := a.bind("default", "default_value? boolean?")
	_, missing := v.(undefined)
	if !missing && (truth(v) || !flag(given[1])) {
		return v
	}
	if given[0] == (absent{}) {
		return Text{}
	}
	return given[0]
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(r *run, v value, _ args) value {
	t := r.str(v)
	r.make(5 * len(t.s))
	return t.mapped(htmlEscapes.Replace)
}

// titleFilter makes the first character of each word large and the others small;
// unlike for the method of that name, an apostrophe ends no word.
func titleFilter(r *run, v value, _ args) value {
	t := r.str(v)
	r.make(3 * len(t.s))
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
	return t.as(b.String())
}

func absolute(_ *run, v value, _ args) value {
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	}
	n, ok := whole(v)
	if !ok {
		panic(failf("%s is no number", typeName(v)))
	}
	bounded64(n != math.MinInt)
	return max(n, -n)
}

// toInt is int(default=0, base=10).
func toInt(r *run, v value, a args) value {
	given := a.bind("int", "default? base?")
	r.step(1 + len(textOf(v)))
	preset := given[0]
	if preset == (absent{}) {
		preset = 0
	}
	base := integer(given[1], 10)
	if n, ok := whole(v); ok {
		return n
	}
	f, ok := v.(float64)
	if t, isText := v.(Text); isText {
		s := strings.ToLower(strings.TrimFunc(t.s, isSpace))
		if n, err := strconv.ParseInt(strings.TrimPrefix(s, map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]), base, 64); err == nil {
			return int(n)
		}
		parsed, err := strconv.ParseFloat(s, 64)
		f, ok = parsed, err == nil
	}
	if !ok || math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		return preset
	}
	return int(f)
}

func toFloat(r *run, v value, a args) value {
	given := a.bind("float", "default?")
	r.step(1 + len(textOf(v)))
	if f, ok := number(v); ok {
		return f
	}
	if t, ok := v.(Text); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(t.s, isSpace), 64); err == nil {
			return f
		}
	}
	if given[0] == (absent{}) {
		return 0.0
	}
	return given[0]
}

// round is round(precision=0, method='common'): half goes to even, as in Python.
func round(r *run, v value, a args) value {
	given := a.bind("round", "precision? method?")
	f, ok := number(v)
	if !ok {
		panic(failf("%s is no number", typeName(v)))
	}
	precision := integer(given[0], 0)
	how := texts(given[1], "common")
	if n, ok := whole(v); ok && how.s == "common" {
		return n
	}
	r.step(1 + max(precision, 0))
	return roundFloat(f, precision, how.s)
}

func roundFloat(f float64, precision int, how string) value {
	if precision < 0 || precision > 300 {
		panic(failf("precision is not 0 to 300"))
	}
	scale := math.Pow(10, float64(precision))
	switch how {
	case "common":
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return rounded
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	}
	panic(failf("method is not common, ceil or floor"))
}

// indent is indent(width=4, first=False, blank=False).
func indent(r *run, v value, a args) value {
	given := a.bind("indent", "width? first? blank?")
	t := r.str(v)
	by, ok := given[0].(Text)
	if !ok {
		n := integer(given[0], 4)
		if n > maxSource {
			panic(failure{errMade})
		}
		by = Inside(strings.Repeat(" ", max(n, 0)))
	}
	r.make(t.size() + product(countLines(t.s)+1, by.size()))
	return indented(t, by, flag(given[1]), flag(given[2]))
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

func countLines(s string) (n int) {
	for _, c := range s {
		if endsLine(c) {
			n++
		}
	}
	return n
}

// lineAt returns where the line that begins at a place ends, and where the next one begins.
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
