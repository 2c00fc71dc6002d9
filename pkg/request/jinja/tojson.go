package jinja

import (
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
func toJSON(r *run, v value, a args) value {
	given := a.bind("tojson", "ensure_ascii? indent? separators? sort_keys?")
	w := &jsonWriter{run: r, ascii: flag(given[0]), sorted: flag(given[3]), item: ", ", pair: ": "}
	w.setIndent(given[1])
	w.setSeparators(given[2])
	w.value(v, 0)
	return w.text()
}

func (w *jsonWriter) setIndent(v value) {
	switch v := v.(type) {
	case nil, absent:
		return
	case Text:
		w.indent = v.s
	default:
		n, ok := whole(v)
		if !ok || n > maxSource {
			panic(failf("indent is %s", typeName(v)))
		}
		w.indent = strings.Repeat(" ", max(n, 0))
	}
	w.lines, w.item = true, ","
}

func (w *jsonWriter) setSeparators(v value) {
	if v == nil || v == (absent{}) {
		return
	}
	if l, ok := v.(*List); ok && len(l.items) == 2 {
		item, ok := l.items[0].(Text)
		pair, also := l.items[1].(Text)
		if w.item, w.pair = item.s, pair.s; ok && also {
			return
		}
	}
	panic(failf("separators are not two strings"))
}

func (w *jsonWriter) value(v value, depth int) {
	w.make(itemBytes + len(w.item) + len(w.pair))
	if depth > maxDepth {
		panic(failure{errDepth})
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
		w.string(v)
	case *List:
		if !v.indexed() {
			panic(failf("%s is not JSON: use the filter list", typeName(v)))
		}
		w.enclose("[", "]", len(v.items), depth, func(i int) { w.value(v.items[i], depth+1) })
	case *Dict:
		w.dict(v, depth)
	default:
		panic(failf("%s is not JSON", typeName(v)))
	}
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

func (w *jsonWriter) dict(d *Dict, depth int) {
	w.makeItems(len(d.keys))
	order := places(len(d.keys))
	if w.sorted {
		slices.SortStableFunc(order, func(i, j int) int { return w.compare(d.keys[i], d.keys[j], 0) })
	}
	w.enclose("{", "}", len(order), depth, func(i int) {
		w.key(d.keys[order[i]])
		w.WriteString(w.pair)
		w.value(d.values[order[i]], depth+1)
	})
}

// key writes a key, which is a string in JSON.
func (w *jsonWriter) key(v value) {
	if t, ok := v.(Text); ok {
		w.string(t)
		return
	}
	w.WriteString(`"`)
	w.value(v, 0) // a number, a boolean or none: others are no keys
	w.WriteString(`"`)
}

func (w *jsonWriter) enclose(open, shut string, n, depth int, item func(i int)) {
	w.WriteString(open)
	for i := range n {
		if i > 0 {
			w.WriteString(w.item)
		}
		w.newline(depth + 1)
		item(i)
	}
	if n > 0 {
		w.newline(depth)
	}
	w.WriteString(shut)
}

func (w *jsonWriter) newline(depth int) {
	if !w.lines {
		return
	}
	w.make(1 + len(w.indent)*depth)
	w.WriteString("\n" + strings.Repeat(w.indent, depth))
}

// string writes a string; its quotes are the template's.
func (w *jsonWriter) string(t Text) {
	w.make(6 * len(t.s))
	w.WriteString(`"`)
	t.Pieces(func(s string, outside bool) {
		var b strings.Builder
		for _, c := range s {
			w.escape(&b, c)
		}
		w.write(b.String(), outside)
	})
	w.WriteString(`"`)
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
