package jsonschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// value is JSON with the order of its keys.
type value struct {
	kind    byte // 'o', 'a', 's', 'n', 'b' or '0' of null
	members []member
	items   []*value
	text    string // of a string, a number as it is written
	yes     bool
	pointer string
}

type member struct {
	key string
	of  *value
}

// maxNesting bounds a schema's depth.
const maxNesting = 64

// parse reads a schema.
func parse(text string) (*value, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := read(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, &Refusal{Why: "something stands behind the schema"}
	}
	return v, nil
}

func read(d *json.Decoder, pointer string, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, &Refusal{Pointer: pointer[:min(len(pointer), maxShown)], Why: fmt.Sprintf("it is nested more than %d deep", maxNesting)}
	}
	t, err := d.Token()
	if err != nil {
		return nil, notJSON(err)
	}
	v := &value{pointer: pointer}
	switch t := t.(type) {
	case json.Delim:
		err = v.readInside(d, t, depth)
	case string:
		v.kind, v.text = 's', t
	case json.Number:
		v.kind, v.text = 'n', t.String()
	case bool:
		v.kind, v.yes = 'b', t
	default:
		v.kind = '0'
	}
	return v, err
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &Refusal{Why: "it is not JSON: it ends too early"}
	}
	return &Refusal{Why: "it is not JSON: " + err.Error()}
}

func (v *value) readInside(d *json.Decoder, open json.Delim, depth int) error {
	v.kind = 'a'
	if open == '{' {
		v.kind = 'o'
	}
	keys := map[string]bool{}
	for d.More() {
		at := strconv.Itoa(len(v.items))
		if v.kind == 'o' {
			t, err := d.Token()
			if err != nil {
				return notJSON(err)
			}
			at, _ = t.(string)
			if keys[at] {
				return &Refusal{Pointer: v.pointer, Why: fmt.Sprintf("key %.40q is there twice", at)}
			}
			keys[at] = true
		}
		of, err := read(d, v.pointer+"/"+escapePointer(at), depth+1)
		if err != nil {
			return err
		}
		if v.kind == 'o' {
			v.members = append(v.members, member{at, of})
		} else {
			v.items = append(v.items, of)
		}
	}
	if _, err := d.Token(); err != nil {
		return notJSON(err)
	}
	return nil
}

func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// get returns a member's value; nil: there is none.
func (v *value) get(key string) *value {
	for _, m := range v.members {
		if m.key == key {
			return m.of
		}
	}
	return nil
}

// quote returns a string as JSON has it, with nothing escaped that need not be.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20:
			if i := strings.IndexRune("\b\f\n\r\t", r); i >= 0 {
				b.WriteString(`\` + "bfnrt"[i:i+1])
			} else {
				fmt.Fprintf(&b, `\u%04x`, r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// canonical returns a value's text in one form.
func canonical(v *value) string {
	var b strings.Builder
	write(&b, v)
	return b.String()
}

func write(b *strings.Builder, v *value) {
	switch v.kind {
	case 'o':
		sorted := sortedMembers(v)
		b.WriteByte('{')
		for _, m := range sorted {
			b.WriteString(quote(m.key) + ":")
			write(b, m.of)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case 'a':
		b.WriteByte('[')
		for _, of := range v.items {
			write(b, of)
			b.WriteByte(',')
		}
		b.WriteByte(']')
	case 's':
		b.WriteString(quote(v.text))
	case 'n':
		b.WriteString(numberText(v.text))
	default:
		b.WriteString(scalarText(v))
	}
}

// scalarText returns a value that is no object and no list, as JSON has it.
func scalarText(v *value) string {
	switch v.kind {
	case 's':
		return quote(v.text)
	case 'n':
		return v.text
	case 'b':
		return strconv.FormatBool(v.yes)
	}
	return "null"
}
