package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// toJSON replaces the engine's tojson filter, which sorts keys and escapes HTML,
// by what transformers has: json.dumps(x, ensure_ascii=False, indent=indent).
func toJSON(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	if in.IsError() {
		return in
	}
	indent := -1
	if v := params.GetKeywordArgument("indent", nil); v.IsInteger() {
		indent = v.Integer()
	}
	var w jsonWriter
	w.indent = indent
	if err := w.value(in, 0); err != nil {
		return exec.AsValue(fmt.Errorf("tojson: %w", err))
	}
	return exec.AsSafeValue(w.String())
}

// jsonWriter writes JSON with Python's spacing; indent < 0 writes one line.
type jsonWriter struct {
	strings.Builder
	indent int
}

const maxDepth = 64 // a value may hold itself

func (w *jsonWriter) value(v *exec.Value, depth int) error {
	if depth > maxDepth {
		return errors.New("the value is nested too deep")
	}
	switch {
	case v.IsNil():
		w.WriteString("null")
	case v.IsBool():
		w.WriteString(strconv.FormatBool(v.Bool()))
	case v.IsNumber():
		w.WriteString(v.String())
	case v.IsString():
		w.text(v.String())
	case v.IsDict():
		return w.dict(v, depth)
	case v.IsList():
		return w.list(v, depth)
	default:
		return fmt.Errorf("%s is not JSON", v.String())
	}
	return nil
}

// text writes a string, escaping no more than JSON asks for.
func (w *jsonWriter) text(s string) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	out := strings.TrimSuffix(b.String(), "\n")
	// Go also escapes these two for the sake of JavaScript.
	out = strings.ReplaceAll(out, `\u2028`, "\u2028")
	w.WriteString(strings.ReplaceAll(out, `\u2029`, "\u2029"))
}

func (w *jsonWriter) list(v *exec.Value, depth int) error {
	n := v.Len()
	return w.enclose("[", "]", n, depth, func(i int) error { return w.value(v.Index(i), depth+1) })
}

func (w *jsonWriter) dict(v *exec.Value, depth int) error {
	pairs := v.Items()
	if d, ok := v.Interface().(*exec.Dict); ok {
		pairs = d.Pairs
	}
	return w.enclose("{", "}", len(pairs), depth, func(i int) error {
		w.text(pairs[i].Key.String())
		w.WriteString(": ")
		return w.value(pairs[i].Value, depth+1)
	})
}

// enclose writes n items between brackets.
func (w *jsonWriter) enclose(open, shut string, n, depth int, item func(i int) error) error {
	w.WriteString(open)
	for i := range n {
		switch {
		case i > 0 && w.indent < 0:
			w.WriteString(", ")
		case i > 0:
			w.WriteString(",")
		}
		w.newline(depth + 1)
		if err := item(i); err != nil {
			return err
		}
	}
	if n > 0 {
		w.newline(depth)
	}
	w.WriteString(shut)
	return nil
}

func (w *jsonWriter) newline(depth int) {
	if w.indent >= 0 {
		w.WriteString("\n" + strings.Repeat(" ", w.indent*depth))
	}
}
