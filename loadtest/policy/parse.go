package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// value is a value of a JSON text: an object's fields, a list's elements, or
// what json.Token says of the rest, with numbers as they are written.
type value struct {
	path   string
	token  any
	fields []field
	list   []value
}

type field struct {
	name string
	value
}

// mostDepth bounds lists and objects within each other; states need three.
const mostDepth = 16

// parse reads one JSON value. Unlike package json's decoding into structs, it
// keeps what is written more than once or in other cases apart, so that
// nothing of it can be lost in silence.
func parse(data []byte) (value, error) {
	if !utf8.Valid(data) {
		return value{}, errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := parseValue(d, "", 0)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("more follows behind the object")
		}
	}
	return v, notJSON(err, d.InputOffset())
}

// notJSON says in full sentences what package json says.
func notJSON(err error, at int64) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early for a JSON object")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is no JSON: %w (near byte %d)", err, at)
	}
	return err
}

func parseValue(d *json.Decoder, path string, depth int) (value, error) {
	t, err := d.Token()
	if err != nil {
		return value{}, err
	}
	v := value{path: path, token: t}
	if depth > mostDepth {
		return v, fmt.Errorf("%s: more than %d lists and objects lie within each other", path, mostDepth)
	}
	switch t {
	case json.Delim('{'):
		err = parseFields(d, &v, depth)
	case json.Delim('['):
		err = parseList(d, &v, depth)
	default:
		return v, nil
	}
	if err == nil {
		_, err = d.Token() // the end, or Token itself would have failed
	}
	return v, err
}

func parseFields(d *json.Decoder, v *value, depth int) error {
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // Token lets only strings be keys
		if seen[name] {
			return fmt.Errorf("%s is there twice", v.at(name))
		}
		seen[name] = true
		one, err := parseValue(d, v.at(name), depth+1)
		if err != nil {
			return err
		}
		v.fields = append(v.fields, field{name, one})
	}
	return nil
}

func parseList(d *json.Decoder, v *value, depth int) error {
	for d.More() {
		one, err := parseValue(d, fmt.Sprintf("%s[%d]", v.path, len(v.list)), depth+1)
		if err != nil {
			return err
		}
		v.list = append(v.list, one)
	}
	return nil
}

// at is the path of a field.
func (v value) at(name string) string {
	if v.path == "" {
		return name
	}
	return v.path + "." + name
}
