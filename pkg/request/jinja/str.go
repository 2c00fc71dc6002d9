package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v), with nothing for undefined values.
func (r *run) str(v value) (Text, error) {
	switch v := v.(type) {
	case Text:
		return v, nil
	case undefined:
		return Text{}, nil
	}
	var w textWriter
	err := r.repr(&w, v, 0)
	return w.text(), err
}

// repr writes Python's repr(v).
func (r *run) repr(w *textWriter, v value, depth int) error {
	if err := r.make(itemBytes); err != nil || depth > maxDepth {
		return firstOf(err, errDepth)
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
		return r.reprText(w, v)
	case *List:
		return r.reprList(w, v, depth)
	case *Dict:
		return r.reprDict(w, v, depth)
	case undefined:
		w.WriteString("Undefined")
	default:
		return fmt.Errorf("%s cannot be written", typeName(v))
	}
	return nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
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

func (r *run) reprList(w *textWriter, l *List, depth int) error {
	if l.kind == generator {
		return fmt.Errorf("%s cannot be written: use the filter list", typeName(l))
	}
	open, shut := "[", "]"
	if l.kind == tuple {
		open, shut = "(", ")"
	}
	if l.kind == list && l.prefix != "" { // a range
		w.WriteString(l.prefix)
		return nil
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
		if err := r.repr(w, item, depth+1); err != nil {
			return err
		}
	}
	if l.kind == tuple && len(l.items) == 1 {
		w.WriteString(",")
	}
	w.WriteString(shut)
	return nil
}

func (r *run) reprDict(w *textWriter, d *Dict, depth int) error {
	w.WriteString("{")
	for i, key := range d.keys {
		if i > 0 {
			w.WriteString(", ")
		}
		if err := r.repr(w, key, depth+1); err != nil {
			return err
		}
		w.WriteString(": ")
		if err := r.repr(w, d.values[i], depth+1); err != nil {
			return err
		}
	}
	w.WriteString("}")
	return nil
}

func (r *run) reprText(w *textWriter, t Text) error {
	if err := r.make(4 * len(t.s)); err != nil {
		return err
	}
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
	return nil
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
