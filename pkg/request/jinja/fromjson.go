package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/switchyard/switchyard/pkg/request/jsontext"
)

// FromJSON makes a value of JSON that came from outside, as Python's json.loads
// does: dictionaries keep the order of their keys. Half of a surrogate pair, which
// Python lets through to a tokenizer that fails then, is an error, and so is a key that
// is there twice, of which Python takes the last.
func FromJSON(raw []byte) (any, error) {
	if err := jsontext.CheckSurrogates(raw); err != nil {
		return nil, err
	}
	d := &decoder{json.NewDecoder(bytes.NewReader(raw)), maxValues}
	d.UseNumber()
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows after the value")
	}
	return v, nil
}

// decoder counts the values that it may still make.
type decoder struct {
	*json.Decoder
	left int
}

func (d *decoder) value(depth int) (value, error) {
	if d.left--; d.left < 0 {
		return nil, errValues
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return Outside(t), nil
	case json.Number:
		return decodeNumber(t)
	case json.Delim:
		if t == '[' {
			return d.list(depth)
		}
		return d.dict(depth)
	}
	return t, nil // a boolean or null
}

func decodeNumber(n json.Number) (value, error) {
	if i, err := strconv.Atoi(n.String()); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil || !strings.ContainsAny(n.String(), ".eE") {
		return nil, fmt.Errorf("number %.40s is out of range", n)
	}
	return f, nil
}

func (d *decoder) list(depth int) (value, error) {
	out := NewList()
	for d.More() {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, v)
	}
	_, err := d.Token()
	return out, err
}

func (d *decoder) dict(depth int) (value, error) {
	out := NewDict()
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, errors.New("a key is no string")
		}
		if _, twice := out.at[key]; twice {
			return nil, fmt.Errorf("key %.40q is there twice", key)
		}
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		out.put(Outside(key), key, v)
	}
	_, err := d.Token()
	return out, err
}
