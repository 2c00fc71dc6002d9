// Package fields says what becomes of each field of a body: one table, of which the readers,
// docs/operations/fields.md and a test of every field are made.
package fields

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Fate is what becomes of a field.
type Fate int

const (
	// Done has an effect: two of its values give two prompts, or two answers.
	Done Fate = iota
	// Hint may be left: no answer depends on it.
	Hint
	// Refused would change an answer, and cannot be done.
	Refused
)

// Field is one of a body's. The path of one that stands deeper is as in messages[].role.
type Field struct {
	Path string
	Fate Fate
	// Why is what hints are for, or why a field is refused.
	Why string
	// Nothing are values of a refused field, or elements of its list, that ask for nothing,
	// beside null, false, 0 and what is empty.
	Nothing []string
	// Something are values that ask for something of this field, although they are among these.
	Something []string
	// Like is another field, whose value asks for nothing here.
	Like string
	Bound
}

// Bound is how much a value may have; 0 is as much as the body.
type Bound struct {
	// Most are elements of a list, or fields of an object; numbers in a list count apart.
	Most, MostNumbers int
	// MostBytes are those of the value as it stands in the body.
	MostBytes int
}

// wider is a bound that is as wide as both are.
func (b Bound) wider(o Bound) Bound {
	return Bound{max(b.Most, o.Most), max(b.MostNumbers, o.MostNumbers), max(b.MostBytes, o.MostBytes)}
}

// Route is what may stand in the bodies of a path.
type Route struct {
	Path   string
	Fields []Field
	byPath map[string]*Field
	inner  map[string]bool // the fields below which some are listed
	// Bounds are those of fields and of values within them, by general paths: elements of a list as
	// in stop[], and fields of any name as in metadata.*.
	Bounds []Field
	tree   node
}

func route(path string, groups ...[]Field) *Route {
	r := &Route{Path: path, Fields: slices.Concat(groups...), byPath: map[string]*Field{}, inner: map[string]bool{}}
	for i := range r.Fields {
		at := r.Fields[i].Path
		r.byPath[at] = &r.Fields[i]
		for j := range at {
			if at[j] == '.' {
				r.inner[at[:j]] = true
			}
		}
	}
	for _, b := range bounds {
		if top, _, _ := strings.Cut(General(b.Path), "."); r.byPath[strings.TrimSuffix(top, "[]")] != nil {
			r.tree.plant(b)
		}
	}
	r.Bounds = r.tree.planted(nil)
	return r
}

func done(paths ...string) []Field { return all(Field{}, paths...) }

func hints(why string, paths ...string) []Field { return all(Field{Fate: Hint, Why: why}, paths...) }

func refused(why string, paths ...string) []Field {
	return all(Field{Fate: Refused, Why: why}, paths...)
}

// unless is a field that is refused but for some values.
func unless(why, path string, nothing ...string) []Field {
	f := Field{Fate: Refused, Why: why, Nothing: nothing}
	if slices.Contains(nothing, "true") { // which it is where it is left out
		f.Something = []string{"false"}
	}
	return all(f, path)
}

// also is a field that is refused with something, too, which would ask for nothing of others.
func also(why, path, something string) []Field {
	return all(Field{Fate: Refused, Why: why, Something: []string{something}}, path)
}

func all(f Field, paths ...string) (out []Field) {
	for _, f.Path = range paths {
		out = append(out, f)
	}
	return out
}

var index = regexp.MustCompile(`\[\d+\]`)

// General is the path of a field in any element of a list.
func General(path string) string { return index.ReplaceAllString(path, "[]") }

// Find is a field by its general path; nil: it is unknown.
func (r *Route) Find(path string) *Field { return r.byPath[path] }

// Inner reports whether the fields of the object at a general path are listed.
func (r *Route) Inner(path string) bool { return path == "" || r.inner[path] }

// AsksNothing reports whether a value of a refused field asks for nothing; like is the value of
// the field that it is Like.
func (f *Field) AsksNothing(value, like json.RawMessage) bool {
	var text bytes.Buffer
	if json.Compact(&text, value) != nil {
		return false
	}
	if slices.Contains(f.Something, text.String()) {
		return false
	}
	if slices.Contains(nothings, text.String()) || slices.Contains(f.Nothing, text.String()) || f.Like != "" && bytes.Equal(value, like) {
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return false
	}
	return !slices.ContainsFunc(list, func(one json.RawMessage) bool { return !slices.Contains(f.Nothing, string(one)) })
}

// nothings ask for nothing of any field.
var nothings = []string{"null", "false", "0", "0.0", `""`, "[]", "{}"}
