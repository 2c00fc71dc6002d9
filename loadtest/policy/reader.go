package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// reader takes typed values out of a state. It remembers the first that is
// wrong, by its path, and gives zeros from then on.
type reader struct{ err error }

func (r *reader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %s", ErrState, path, fmt.Sprintf(format, args...))
	}
}

// object wants an object with no fields but these.
func (r *reader) object(v value, names ...string) {
	if v.token != json.Delim('{') {
		r.fail(cmp.Or(v.path, "the state"), "must be a JSON object with %s", strings.Join(names, ", "))
		return
	}
	for _, f := range v.fields {
		if !slices.Contains(names, f.name) {
			r.fail(f.path, "is unknown; fields here are %s", strings.Join(names, ", "))
		}
	}
}

// find is a field; an error if it must be there and is not.
func (r *reader) find(v value, name string, must bool) (value, bool) {
	for _, f := range v.fields {
		if f.name == name {
			return f.value, true
		}
	}
	if must {
		r.fail(v.at(name), "is missing")
	}
	return value{}, false
}

// list is a list of objects.
func (r *reader) list(v value, name string, must bool) []value {
	f, ok := r.find(v, name, must)
	if !ok || f.token == nil && !must {
		return nil
	}
	if f.token != json.Delim('[') {
		r.fail(f.path, "must be a list")
	}
	return f.list
}

// number is a number of at least 0.
func (r *reader) number(v value, name string, must bool) float64 {
	f, ok := r.find(v, name, must)
	if !ok {
		return 0
	}
	text, ok := f.token.(json.Number)
	if !ok {
		r.fail(f.path, "must be a number")
		return 0
	}
	n, err := text.Float64()
	if err != nil || !(n >= 0) {
		r.fail(f.path, "is %s; it must be a number of at least 0", text)
		return 0
	}
	return n
}

// mostExact is the largest count that a float64, and so JSON, holds exactly.
const mostExact = 1 << 53

// whole is a whole number from 0 to most, however it is written.
func (r *reader) whole(v value, name string, must bool, most float64) uint64 {
	n := r.number(v, name, must)
	if n > most || n != math.Trunc(n) {
		r.fail(v.at(name), "is %v; it must be a whole number from 0 to %.0f", n, most)
		return 0
	}
	return uint64(n)
}

func (r *reader) id(v value, name string) uint32 {
	return uint32(r.whole(v, name, true, math.MaxUint32))
}

func (r *reader) count(v value, name string, must bool) int {
	return int(r.whole(v, name, must, math.MaxInt32))
}

func (r *reader) bytes(v value, name string) uint64 {
	return r.whole(v, name, true, mostExact)
}

func (r *reader) text(v value, name string) string {
	f, ok := r.find(v, name, true)
	if !ok {
		return ""
	}
	s, ok := f.token.(string)
	if !ok {
		r.fail(f.path, "must be a string")
	}
	return s
}

// checked adds what the policies' own check says.
func (r *reader) checked(err error) error {
	if r.err != nil {
		return r.err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}
