package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Most bytes of a file, and of a text in it, which terminals and logs show.
const (
	mostFile = 64 << 10
	mostText = 1000
)

// Read reads a profile. Its errors say where in the file they are.
func Read(file string, data []byte) (*Profile, error) {
	r := reader{file}
	top, err := r.document(data)
	if err != nil {
		return nil, err
	}
	p := &Profile{Name: nameOf(file)}
	if err := r.profile(p, top); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, r.wrong(top, err)
	}
	return p, nil
}

type reader struct{ file string }

func (r reader) wrong(at *yaml.Node, err error) error {
	return fmt.Errorf("%s:%d: %w", r.file, at.Line, err)
}

// document returns the file's one mapping.
func (r reader) document(data []byte) (*yaml.Node, error) {
	if len(data) > mostFile {
		return nil, fmt.Errorf("%s: a profile has at most %d bytes", r.file, mostFile)
	}
	from := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := from.Decode(&first); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the profile is empty")
		}
		return nil, fmt.Errorf("%s: %w", r.file, err)
	}
	if err := from.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, r.wrong(&first, errors.New("a profile is one document; there is more behind it"))
	}
	return first.Content[0], nil
}

func (r reader) profile(p *Profile, top *yaml.Node) error {
	keys := map[string]func(*yaml.Node) error{
		"device":  func(n *yaml.Node) (err error) { p.Device, err = r.text("device", n); return err },
		"experts": func(n *yaml.Node) (err error) { p.Experts, err = r.text("experts", n); return err },
	}
	for _, f := range fields {
		keys[f.key] = func(n *yaml.Node) (err error) { *f.of(p), err = r.number(f.key, f.check, n); return err }
	}
	for _, group := range extras {
		if !slices.ContainsFunc(group, func(f field[Profile]) bool { return names(top, []string{f.key}) }) {
			continue
		}
		for _, f := range group {
			keys[f.key] = func(n *yaml.Node) (err error) { *f.of(p), err = r.number(f.key, f.check, n); return err }
		}
	}
	if names(top, []string{"curve"}) {
		keys["curve"] = func(n *yaml.Node) error { return r.curve(p, n) }
	}
	if !names(top, roofline) {
		for _, key := range roofline {
			delete(keys, key)
		}
	}
	return r.mapping("the profile", top, keys)
}

// roofline are the keys that a profile of printed time leaves out, all of them.
var roofline = []string{"read_bytes_per_second", "flops_per_second", "element_bytes", "access_seconds", "call_seconds"}

func names(n *yaml.Node, keys []string) bool {
	return slices.ContainsFunc(n.Content, func(n *yaml.Node) bool { return slices.Contains(keys, n.Value) })
}

func (r reader) number(key string, check func(float64) error, n *yaml.Node) (out Number, err error) {
	return out, r.mapping(key, n, map[string]func(*yaml.Node) error{
		"value":  func(n *yaml.Node) (err error) { out.Value, err = r.value(key, check, n); return err },
		"source": func(n *yaml.Node) (err error) { out.Source, err = r.text("the source of "+key, n); return err },
	})
}

// mapping reads each of the keys once, and no others.
func (r reader) mapping(what string, n *yaml.Node, keys map[string]func(*yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return r.wrong(n, fmt.Errorf("%s must be a mapping with %s", what, list(keys)))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		read := keys[key.Value]
		switch {
		case read == nil:
			return r.wrong(key, fmt.Errorf("%q is no key of %s; it has %s", key.Value, what, list(keys)))
		case seen[key.Value]:
			return r.wrong(key, fmt.Errorf("%q is there twice", key.Value))
		}
		seen[key.Value] = true
		if err := read(n.Content[i+1]); err != nil {
			return err
		}
	}
	for _, key := range sorted(keys) {
		if !seen[key] {
			return r.wrong(n, fmt.Errorf("%q is missing in %s; add it", key, what))
		}
	}
	return nil
}

// numbers returns a list of so many numbers at most.
func (r reader) numbers(f field[Profile], n *yaml.Node, most int) (all []float64, err error) {
	if n.Kind != yaml.SequenceNode || len(n.Content) > most {
		return nil, r.wrong(n, fmt.Errorf("%s must be a list of up to %d numbers", f.key, most))
	}
	for _, one := range n.Content {
		v, err := r.value(f.key, f.check, one)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (r reader) value(key string, check func(float64) error, n *yaml.Node) (v float64, err error) {
	if tag := n.ShortTag(); n.Kind != yaml.ScalarNode || tag != "!!float" && tag != "!!int" {
		return 0, r.wrong(n, fmt.Errorf("the value of %s must be a number", key))
	}
	if err := n.Decode(&v); err != nil {
		return 0, r.wrong(n, fmt.Errorf("the value of %s: %w", key, err))
	}
	if err := check(v); err != nil {
		return 0, r.wrong(n, err)
	}
	return v, nil
}

func (r reader) text(what string, n *yaml.Node) (string, error) {
	text := strings.TrimSpace(n.Value)
	switch {
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || text == "":
		return "", r.wrong(n, fmt.Errorf("%s must be a text", what))
	case len(text) > mostText:
		return "", r.wrong(n, fmt.Errorf("%s has %d bytes; it may have %d", what, len(text), mostText))
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "", r.wrong(n, fmt.Errorf("%s has characters that cannot be shown", what))
	}
	return text, nil
}

func sorted[V any](keys map[string]V) []string {
	names := make([]string, 0, len(keys))
	for key := range keys {
		names = append(names, key)
	}
	slices.Sort(names)
	return names
}

func list[V any](keys map[string]V) string { return strings.Join(sorted(keys), ", ") }
