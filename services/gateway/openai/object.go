package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/switchyard/switchyard/pkg/request/client"
	"github.com/switchyard/switchyard/pkg/request/jsontext"
	"github.com/switchyard/switchyard/services/gateway/fields"
)

// Object is a JSON object whose fields are taken out one by one: what is left at the end is
// unknown. The first field that is wrong is kept as its error.
type Object struct {
	fields map[string]json.RawMessage
	path   string // of its fields; empty: it is the body
	err    *Error
	route  *fields.Route // whose table says what becomes of them; nil: none does
	left   <-chan struct{}
}

// Open reads a body that its route has measured. What is left of it are the fields that are done there:
// hints are dropped, and what is refused or unknown is its error. So is that ctx ends meanwhile.
func Open(ctx context.Context, body []byte, route *fields.Route) (*Object, error) {
	o, err := parse(body)
	if err != nil {
		return nil, err
	}
	o.route, o.left = route, ctx.Done()
	o.sort()
	return o, nil
}

// sort goes by the table, which may have none of this object's fields.
func (o *Object) sort() *Object {
	o.Goes()
	at := fields.General(o.path)
	if o.route == nil || !o.route.Inner(at) {
		o.route = nil
		return o
	}
	for _, name := range slices.Sorted(maps.Keys(o.fields)) {
		path := name
		if at != "" {
			path = at + "." + name
		}
		switch f := o.route.Find(path); {
		case f == nil:
			o.Fail(unknown(o.At(name)))
		case f.Fate == fields.Done:
			continue
		case f.Fate == fields.Refused && !f.AsksNothing(o.fields[name], o.fields[f.Like]):
			o.Fail(Unsupported(o.At(name), f.Why))
		}
		delete(o.fields, name)
	}
	return o
}

var errLeft = ErrorOf(&client.Error{Code: client.CodeCancelled, Message: "the client has left"}, 0)

// Goes reports whether reading goes on: the client is there, and nothing is wrong so far.
func (o *Object) Goes() bool {
	select {
	case <-o.left:
		o.Fail(errLeft)
	default:
	}
	return o.err == nil
}

func unknown(path string) *Error {
	e := Bad(path, "Unrecognized request argument supplied: %.100s", path)
	e.Code = "unknown_parameter"
	return e
}

func parse(body []byte) (*Object, error) {
	if !utf8.Valid(body) {
		return nil, Bad("", "The body is not UTF-8")
	}
	if err := jsontext.CheckSurrogates(body); err != nil {
		return nil, Bad("", "The body is not text: %v", err)
	}
	o := &Object{}
	if err := json.Unmarshal(body, &o.fields); err != nil {
		return nil, Bad("", "The body is no JSON object: %v", err)
	}
	if o.fields == nil {
		return nil, Bad("", "The body is null; a JSON object is wanted")
	}
	return o, nil
}

// Err is what is wrong with the fields so far.
func (o *Object) Err() error {
	if o.err == nil {
		return nil
	}
	return o.err
}

// Fail notes what is wrong, unless something else is already.
func (o *Object) Fail(e *Error) {
	if o.err == nil {
		o.err = e
	}
}

// At is a field's path, as errors name it; of no field it is the object's own.
func (o *Object) At(name string) string {
	switch {
	case o.path == "":
		return name
	case name == "":
		return o.path
	}
	return o.path + "." + name
}

// Raw takes a field as it is; nil: it is absent or null.
func (o *Object) Raw(name string) json.RawMessage {
	raw := o.fields[name]
	delete(o.fields, name)
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil
	}
	return raw
}

// Take takes a field of a type; nil: it is absent, null or wrong.
func Take[T any](o *Object, name string) *T {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		o.Fail(Bad(o.At(name), "%s: %s", o.At(name), mismatch(err)))
		return nil
	}
	return v
}

// Or is Take with a value in the place of what is absent.
func Or[T any](o *Object, name string, absent T) T {
	if v := Take[T](o, name); v != nil {
		return *v
	}
	return absent
}

// mismatch says in JSON's words what stands where something else is wanted.
func mismatch(err error) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error()
	}
	want := map[string]string{"bool": "true or false", "string": "a string", "int32": "a whole number of 32 bits", "float64": "a number"}
	name := kind.Type.String()
	if wanted, ok := want[name]; ok {
		name = wanted
	} else if strings.HasPrefix(name, "[]") {
		name = "a list"
	} else {
		name = "another value"
	}
	article := "a"
	if kind.Value == "object" || kind.Value == "array" {
		article = "an"
	}
	return fmt.Sprintf("%s %.40s stands where %s is wanted", article, kind.Value, name)
}

// Put puts a field back.
func (o *Object) Put(name string, raw json.RawMessage) {
	if raw != nil {
		o.fields[name] = raw
	}
}

// As is the object with a field under another name.
func (o *Object) As(from, to string) *Object {
	o.Put(to, o.Raw(from))
	return o
}

// EndOf ends an inner object: what is wrong with it is wrong with this one.
func (o *Object) EndOf(in *Object) {
	if in.End() != nil {
		o.Fail(in.err)
	}
}

// Ignore drops fields that change nothing of an answer.
func (o *Object) Ignore(names ...string) {
	for _, name := range names {
		delete(o.fields, name)
	}
}

// End refuses what is left: a typing mistake in a name must not give another answer.
func (o *Object) End() error {
	names := make([]string, 0, len(o.fields))
	for name := range o.fields {
		names = append(names, name)
	}
	if len(names) > 0 {
		slices.Sort(names)
		o.Fail(unknown(o.At(names[0])))
	}
	return o.Err()
}

// Inner takes a field that is an object; nil: it is absent or null.
func (o *Object) Inner(name string) *Object {
	in := Take[map[string]json.RawMessage](o, name)
	if in == nil {
		return nil
	}
	return (&Object{fields: *in, path: o.At(name), route: o.route, left: o.left}).sort()
}

// List takes a field that is a list of objects.
func (o *Object) List(name string) (out []*Object) {
	for i, in := range Or[[]map[string]json.RawMessage](o, name, nil) {
		one := (&Object{fields: in, path: fmt.Sprintf("%s[%d]", o.At(name), i), route: o.route, left: o.left}).sort()
		if out = append(out, one); one.err == errLeft {
			break
		}
	}
	return out
}

// ParseAt is an object within a body, at a path.
func ParseAt(raw json.RawMessage, path string) (*Object, *Error) {
	o := &Object{path: path}
	if json.Unmarshal(raw, &o.fields) != nil || o.fields == nil {
		return nil, Bad(path, "%s must be an object", path)
	}
	return o, nil
}

// Peek is a field as it is, which stays; nil: it is absent or null.
func (o *Object) Peek(name string) json.RawMessage {
	raw := o.Raw(name)
	o.Put(name, raw)
	return raw
}

// Rest is what was not taken, as JSON.
func (o *Object) Rest() json.RawMessage {
	rest, _ := json.Marshal(o.fields) // of what was JSON
	return rest
}
