package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v), with nothing for undefined values.
func (r *run) str(v value) Text {
	switch v := v.(type) {
	case Text:
		return v
	case undefined:
		return Text{}
	}
	var w textWriter
	r.repr(&w, v, 0)
	return w.text()
}

// repr writes Python's repr(v).
func (r *run) repr(w *textWriter, v value, depth int) {
	r.make(itemBytes)
	if depth > maxDepth {
		panic(failure{errDepth})
	}
	switch v := v.(type) {
	case nil:
		w.WriteString("None")
	case bool:
		w.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int:
		w.WriteString(strconv.Itoa(v))
	case float64:
		w.WriteString(floatText(v))
	case Text:
		r.reprText(w, v)
	case *List:
		r.reprList(w, v, depth)
	case *Dict:
		r.reprDict(w, v, depth)
	case undefined:
		w.WriteString("Undefined")
	default:
		panic(failf("%s cannot be written", typeName(v)))
	}
}

// floatText is Python's repr of a float: the shortest digits that give it back.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (r *run) reprList(w *textWriter, l *List, depth int) {
	if l.kind == generator {
		panic(failf("%s cannot be written: use the filter list", typeName(l)))
	}
	open, shut := "[", "]"
	if l.kind == tuple {
		open, shut = "(", ")"
	}
	if l.kind == list && l.prefix != "" { // a range
		w.WriteString(l.prefix)
		return
	}
	if l.kind == view {
		w.WriteString(l.prefix)
		open, shut = "([", "])"
	}
	w.WriteString(open)
	for i, item := range l.items {
		if i > 0 {
			w.WriteString(", ")
		}
		r.repr(w, item, depth+1)
	}
	if l.kind == tuple && len(l.items) == 1 {
		w.WriteString(",")
	}
	w.WriteString(shut)
}

func (r *run) reprDict(w *textWriter, d *Dict, depth int) {
	w.WriteString("{")
	for i, key := range d.keys {
		if i > 0 {
			w.WriteString(", ")
		}
		r.repr(w, key, depth+1)
		w.WriteString(": ")
		r.repr(w, d.values[i], depth+1)
	}
	w.WriteString("}")
}

func (r *run) reprText(w *textWriter, t Text) {
	r.make(4 * len(t.s))
	quote := '\''
	if strings.Contains(t.s, "'") && !strings.Contains(t.s, `"`) {
		quote = '"'
	}
	w.WriteString(string(quote))
	t.Pieces(func(s string, outside bool) {
		var b strings.Builder
		for _, c := range s {
			b.WriteString(reprRune(c, quote))
		}
		w.write(b.String(), outside)
	})
	w.WriteString(string(quote))
}

func reprRune(c, quote rune) string {
	switch {
	case c == '\\' || c == quote:
		return `\` + string(c)
	case c == '\n':
		return `\n`
	case c == '\r':
		return `\r`
	case c == '\t':
		return `\t`
	case unicode.IsPrint(c):
		return string(c)
	case c < 0x100:
		return fmt.Sprintf(`\x%02x`, c)
	case c < 0x10000:
		return fmt.Sprintf(`\u%04x`, c)
	}
	return fmt.Sprintf(`\U%08x`, c)
}
