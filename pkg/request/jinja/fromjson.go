package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// FromJSON makes a value of JSON that came from outside, as Python's json.loads
// does: dictionaries keep the order of their keys.
func FromJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows after the value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (value, error) {
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
			return decodeList(d, depth)
		}
		return decodeDict(d, depth)
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

func decodeList(d *json.Decoder, depth int) (value, error) {
	out := NewList()
	for d.More() {
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		out.items = append(out.items, v)
	}
	_, err := d.Token()
	return out, err
}

func decodeDict(d *json.Decoder, depth int) (value, error) {
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
		v, err := decode(d, depth+1)
		if err != nil {
			return nil, err
		}
		out.put(Outside(key), key, v)
	}
	_, err := d.Token()
	return out, err
}
