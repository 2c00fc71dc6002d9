package jsonschema

import (
	"encoding/binary"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// flatten lists the schemas that hold of one value together: v and what it refers to, whose
// own $ref and allOf are among them. never is true where nothing can be.
func (c *compiler) flatten(v *value) (parts []*value, never bool, err error) {
	f := flattening{compiler: c, holds: map[*value]bool{}}
	err = f.add(v)
	return f.parts, f.never, err
}

// flattening is what flatten has found so far.
type flattening struct {
	*compiler
	holds map[*value]bool // false: it is being added
	parts []*value
	never bool
}

// add adds a schema behind those that hold with it.
func (f *flattening) add(v *value) error {
	switch {
	case v.kind == 'b':
		f.never = f.never || !v.yes
		return nil
	case v.kind != 'o':
		return refuse(v, "", "a schema is an object, true or false")
	}
	if whole, met := f.holds[v]; met && !whole {
		return refuse(v, "$ref", "it leads back to itself, and says nothing of any value")
	} else if met {
		return nil
	}
	f.holds[v] = false
	for _, m := range v.members {
		if err := f.follow(v, m); err != nil {
			return err
		}
	}
	f.holds[v] = true
	f.parts = append(f.parts, v)
	return nil
}

// follow adds what a member of a schema says that holds as well.
func (f *flattening) follow(v *value, m member) error {
	switch m.key {
	case "$ref":
		to, err := f.resolve(v, m.of)
		if err != nil {
			return err
		}
		return f.add(to)
	case "allOf":
		if m.of.kind != 'a' {
			return refuse(v, "allOf", "it is a list of schemas")
		}
		for _, of := range m.of.items {
			if err := f.add(of); err != nil {
				return err
			}
		}
	}
	return nil
}

// resolve finds what a $ref refers to.
func (c *compiler) resolve(v, ref *value) (*value, error) {
	text := ref.text
	if id := c.root.get("$id"); id != nil && id.text != "" { // its own name, if it has one
		if path, own := strings.CutPrefix(text, strings.TrimSuffix(id.text, "#")); own && (path == "" || path[0] == '#') {
			text = "#" + strings.TrimPrefix(path, "#")
		}
	}
	path, ok := strings.CutPrefix(text, "#")
	if ok && path != "" && path[0] != '/' {
		if at := c.root.anchored(path); at != nil {
			return at, nil
		}
	}
	if ref.kind != 's' || !ok || path != "" && path[0] != '/' {
		return nil, refuse(v, "$ref", "only references within the schema are followed, such as #/$defs/name")
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return nil, refuse(v, "$ref", "%v", err)
	}
	at := c.root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		next := at.get(step)
		if i, err := strconv.Atoi(step); at.kind == 'a' && err == nil && i >= 0 && i < len(at.items) {
			next = at.items[i]
		}
		if next == nil {
			return nil, refuse(v, "$ref", "there is no %.100s", ref.text)
		}
		at = next
	}
	return at, nil
}

// anchored finds the schema with a name of its own; nil: there is none.
func (v *value) anchored(name string) *value {
	for _, key := range []string{"$anchor", "$id", "id"} {
		if of := v.get(key); of != nil && of.kind == 's' && strings.TrimPrefix(of.text, "#") == name && (key == "$anchor" || of.text != name) {
			return v
		}
	}
	for _, m := range v.members {
		if at := m.of.anchored(name); at != nil {
			return at
		}
	}
	for _, of := range v.items {
		if at := of.anchored(name); at != nil {
			return at
		}
	}
	return nil
}

// keyOf tells lists of schemas that hold together apart.
func (c *compiler) keyOf(parts []*value) string {
	var numbers []uint32
	for _, p := range parts {
		n, ok := c.numbers[p]
		if !ok {
			n = uint32(len(c.numbers))
			c.numbers[p] = n
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var key []byte
	for _, n := range slices.Compact(numbers) {
		key = binary.LittleEndian.AppendUint32(key, n)
	}
	return string(key)
}
