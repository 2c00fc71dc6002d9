package tokenizer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// What the template engine does differently from Jinja and templates rely on.

// list is a list whose element -1 is its last one, also if it is the only one:
// the engine's own lists have no element -n of n.
type list []any

// GetItem implements exec.ItemGetter. An index outside is undefined, not an
// error, as in Jinja.
func (l list) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if ok && i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return exec.AsValue(nil), false
	}
	return exec.AsValue(l[i]), true
}

// stringMethods are the engine's methods of strings, which it does not let one
// list or replace.
var stringMethods = strings.Fields(`capitalize capwords casefold center count encode endswith expandtabs find
	format isalnum isalpha isascii isdecimal isdigit islower isnumeric isprintable isspace
	istitle isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rjust
	rpartition rsplit rstrip splitlines startswith strip swapcase title upper zfill`)

// methods are the engine's, with a split that gives a list.
func methods() exec.Methods {
	all := builtins.Methods
	str := map[string]exec.Method[string]{"split": splitMethod}
	for _, name := range stringMethods {
		if method, ok := all.Str.Get(name); ok {
			str[name] = method
		}
	}
	all.Str = exec.NewMethodSet(str)
	return all
}

// splitMethod is str.split(sep=None, maxsplit=-1).
func splitMethod(self string, _ *exec.Value, params *exec.VarArgs) (any, error) {
	limit := -1
	if len(params.Args) > 1 && params.Args[1].IsInteger() {
		limit = params.Args[1].Integer() + 1
	} else if v := params.GetKeywordArgument("maxsplit", nil); v.IsInteger() {
		limit = v.Integer() + 1
	}
	if limit <= 0 {
		limit = -1
	}
	var parts []string
	switch {
	case len(params.Args) == 0 && limit < 0:
		parts = strings.Fields(self)
	case len(params.Args) > 0 && params.Args[0].IsString() && params.Args[0].String() != "":
		parts = strings.SplitN(self, params.Args[0].String(), limit)
	default:
		return nil, errors.New("split takes a separator that is not empty")
	}
	out := make(list, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out, nil
}

// boundedRange is Python's range as a list. The engine's own leaves a goroutine
// behind when a loop breaks, and knows no bound.
func boundedRange(_ *exec.Evaluator, params *exec.VarArgs) (list, error) {
	var n []int
	for _, arg := range params.Args {
		if !arg.IsInteger() {
			return nil, errors.New("range takes integers")
		}
		n = append(n, arg.Integer())
	}
	start, stop, step := 0, 0, 1
	switch len(n) {
	case 1:
		stop = n[0]
	case 2:
		start, stop = n[0], n[1]
	case 3:
		start, stop, step = n[0], n[1], n[2]
	}
	if len(n) < 1 || len(n) > 3 || step == 0 {
		return nil, errors.New("range takes one to three integers, of which the third is not 0")
	}
	var out list
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) == maxRange {
			return nil, fmt.Errorf("range is longer than %d", maxRange)
		}
		out = append(out, i)
	}
	return out, nil
}
