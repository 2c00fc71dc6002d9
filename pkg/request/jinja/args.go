package jinja

import (
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
func (a *args) take(name string) (value, bool) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false
	}
	v := a.named[i]
	a.names, a.named = slices.Delete(slices.Clone(a.names), i, i+1), slices.Delete(slices.Clone(a.named), i, i+1)
	if slices.Contains(a.names, name) {
		panic(failf("argument %q is there twice", name))
	}
	return v, true
}

// absent is the value of an argument that may be left out and is.
type absent struct{}

// bind gives the arguments of function of in the order of its parameters:
// names with spaces between them, of which those that end with ? may be absent.
func (a args) bind(of, parameters string) []value {
	names := strings.Fields(parameters)
	if len(a.values) > len(names) {
		panic(failf("%s takes at most %d arguments, not %d", of, len(names), len(a.values)))
	}
	out := make([]value, len(names))
	for i, name := range names {
		name, optional := strings.CutSuffix(name, "?")
		v, ok := a.take(name)
		switch {
		case ok && i < len(a.values):
			panic(failf("%s has two values for %q", of, name))
		case i < len(a.values):
			v = a.values[i]
		case !ok && !optional:
			panic(failf("%s needs argument %q", of, name))
		case !ok:
			v = absent{}
		}
		out[i] = v
	}
	if len(a.names) > 0 {
		panic(failf("%s has no argument %q", of, a.names[0]))
	}
	return out
}

// integer returns an argument that is one, or preset if it is absent.
func integer(v value, preset int) int {
	if v == (absent{}) {
		return preset
	}
	n, ok := whole(v)
	if !ok {
		panic(failf("%s is no integer", typeName(v)))
	}
	return n
}

// texts returns an argument that is a string, or preset if it is absent.
func texts(v value, preset string) Text {
	if v == (absent{}) {
		return Inside(preset)
	}
	t, ok := v.(Text)
	if !ok {
		panic(failf("%s is no string", typeName(v)))
	}
	return t
}

// flag is whether an argument is there and counts as true.
func flag(v value) bool { return v != (absent{}) && truth(v) }
