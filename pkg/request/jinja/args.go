package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// args are the values that a function is called with.
type args struct {
	values []value
	names  []string
	named  []value
}

// take removes a named argument; false if it is not there.
func (a *args) take(name string) (value, bool, error) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false, nil
	}
	v := a.named[i]
	a.names, a.named = slices.Delete(slices.Clone(a.names), i, i+1), slices.Delete(slices.Clone(a.named), i, i+1)
	if slices.Contains(a.names, name) {
		return nil, false, fmt.Errorf("argument %q is there twice", name)
	}
	return v, true, nil
}

// absent is the value of an argument that may be left out and is.
type absent struct{}

// bind gives the arguments of function of in the order of its parameters:
// names with spaces between them, of which those that end with ? may be absent.
func (a args) bind(of, parameters string) ([]value, error) {
	names := strings.Fields(parameters)
	if len(a.values) > len(names) {
		return nil, fmt.Errorf("%s takes at most %d arguments, not %d", of, len(names), len(a.values))
	}
	out := make([]value, len(names))
	for i, name := range names {
		name, optional := strings.CutSuffix(name, "?")
		v, ok, err := a.take(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", of, err)
		case ok && i < len(a.values):
			return nil, fmt.Errorf("%s has two values for %q", of, name)
		case i < len(a.values):
			v = a.values[i]
		case !ok && !optional:
			return nil, fmt.Errorf("%s needs argument %q", of, name)
		case !ok:
			v = absent{}
		}
		out[i] = v
	}
	if len(a.names) > 0 {
		return nil, fmt.Errorf("%s has no argument %q", of, a.names[0])
	}
	return out, nil
}

// integer is an argument that is one, or preset if it is absent.
func integer(v value, preset int) (int, error) {
	if v == (absent{}) {
		return preset, nil
	}
	n, ok := whole(v)
	if !ok {
		return 0, fmt.Errorf("%s is no integer", typeName(v))
	}
	return n, nil
}

// texts is an argument that is a string, or preset if it is absent.
func texts(v value, preset string) (Text, error) {
	if v == (absent{}) {
		return Inside(preset), nil
	}
	t, ok := v.(Text)
	if !ok {
		return t, fmt.Errorf("%s is no string", typeName(v))
	}
	return t, nil
}

// flag is whether an argument is there and counts as true.
func flag(v value) bool { return v != (absent{}) && truth(v) }
