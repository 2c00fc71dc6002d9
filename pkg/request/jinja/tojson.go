package jinja

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// jsonWriter writes JSON with Python's spacing, as json.dumps does.
type jsonWriter struct {
	*run
	textWriter
	ascii      bool // escape what is not ASCII
	sorted     bool // keys in their order
	lines      bool // an item a line, with indent for each level
	indent     string
	item, pair string // what stands between items, and between key and value
}

// toJSON is transformers' tojson(ensure_ascii=False, indent=None,
// separators=None, sort_keys=False), which escapes no HTML.
func toJSON(r *run, v value, a args) (value, error) {
	given, err := a.bind("tojson", "ensure_ascii? indent? separators? sort_keys?")
	if err != nil {
		return nil, err
	}
	w := &jsonWriter{run: r, ascii: flag(given[0]), sorted: flag(given[3]), item: ", ", pair: ": "}
	if err := w.setIndent(given[1]); err != nil {
		return nil, err
	}
	if err := w.setSeparators(given[2]); err != nil {
		return nil, err
	}
	err = w.value(v, 0)
	return w.text(), err
}

func (w *jsonWriter) setIndent(v value) error {
	switch v := v.(type) {
	case nil, absent:
		return nil
	case Text:
		w.indent = v.s
	default:
		n, ok := whole(v)
		if !ok || n > maxSource {
			return fmt.Errorf("indent is %s", typeName(v))
		}
		w.indent = strings.Repeat(" ", max(n, 0))
	}
	w.lines, w.item = true, ","
	return nil
}

func (w *jsonWriter) setSeparators(v value) error {
	if v == nil || v == (absent{}) {
		return nil
	}
	if l, ok := v.(*List); ok && len(l.items) == 2 {
		item, ok := l.items[0].(Text)
		pair, also := l.items[1].(Text)
		if w.item, w.pair = item.s, pair.s; ok && also {
			return nil
		}
	}
	return errors.New("separators are not two strings")
}

func (w *jsonWriter) value(v value, depth int) error {
	if err := w.make(itemBytes + len(w.item) + len(w.pair)); err != nil || depth > maxDepth {
		return firstOf(err, errDepth)
	}
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case int:
		w.WriteString(strconv.Itoa(v))
	case float64:
		w.WriteString(jsonFloat(v))
	case Text:
		return w.string(v)
	case *List:
		if v.indexed() {
			return w.list(v, depth)
		}
		return fmt.Errorf("%s is not JSON: use the filter list", typeName(v))
	case *Dict:
		return w.dict(v, depth)
	default:
		return fmt.Errorf("%s is not JSON", typeName(v))
	}
	return nil
}

func jsonFloat(f float64) string {
	switch s := floatText(f); s {
	case "nan":
		return "NaN"
	case "inf", "-inf":
		return strings.Replace(s, "inf", "Infinity", 1)
	default:
		return s
	}
}

func (w *jsonWriter) list(l *List, depth int) error {
	return w.enclose("[", "]", len(l.items), depth, func(i int) error { return w.value(l.items[i], depth+1) })
}

func (w *jsonWriter) dict(d *Dict, depth int) error {
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if err := w.makeItems(len(order)); err != nil {
		return err
	}
	if w.sorted {
		if err := w.sortKeys(order, d); err != nil {
			return err
		}
	}
	return w.enclose("{", "}", len(order), depth, func(i int) error {
		if err := w.key(d.keys[order[i]]); err != nil {
			return err
		}
		w.WriteString(w.pair)
		return w.value(d.values[order[i]], depth+1)
	})
}

func (w *jsonWriter) sortKeys(order []int, d *Dict) (failed error) {
	slices.SortStableFunc(order, func(i, j int) int {
		c, err := w.compare(d.keys[i], d.keys[j], 0)
		failed = firstOf(failed, err)
		return c
	})
	return failed
}

// key writes a key, which is a string in JSON.
func (w *jsonWriter) key(v value) error {
	if t, ok := v.(Text); ok {
		return w.string(t)
	}
	w.WriteString(`"`)
	err := w.value(v, 0) // a number, a boolean or none: others are no keys
	w.WriteString(`"`)
	return err
}

// enclose writes n items between brackets.
func (w *jsonWriter) enclose(open, shut string, n, depth int, item func(i int) error) error {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteString(w.item)
		}
		if err := w.newline(depth + 1); err != nil {
			return err
		}
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		if err := w.newline(depth); err != nil {
			return err
		}
	}
	w.WriteString(shut)
	return nil
}

func (w *jsonWriter) newline(depth int) error {
	if !w.lines {
		return nil
	}
	if err := w.make(1 + len(w.indent)*depth); err != nil {
		return err
	}
	w.WriteString("\n" + strings.Repeat(w.indent, depth))
	return nil
}

// string writes a string; its quotes are the template's.
func (w *jsonWriter) string(t Text) error {
	if err := w.make(6 * len(t.s)); err != nil {
		return err
	}
	w.WriteString(`"`)
	t.Pieces(func(s string, outside bool) {
		var b strings.Builder
		for _, c := range s {
			w.escape(&b, c)
		}
		w.write(b.String(), outside)
	})
	w.WriteString(`"`)
	return nil
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}

func (w *jsonWriter) escape(b *strings.Builder, c rune) {
	switch short := jsonEscapes[c]; {
	case short != "":
		b.WriteString(short)
	case c < 0x20 || w.ascii && c > 0x7e && c < 0x10000:
		fmt.Fprintf(b, `\u%04x`, c)
	case w.ascii && c >= 0x10000:
		high, low := utf16.EncodeRune(c)
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		b.WriteRune(c)
	}
}
