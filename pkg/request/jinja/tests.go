package jinja

import "unicode"

type test func(r *run, v value, a args) bool

// comparisons are the tests that compare with one value, by name.
var comparisons = map[string]string{
	"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=", "lt": "<", "lessthan": "<", "<": "<", "le": "<=", "<=": "<=",
	"gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=", "in": "in",
}

// testNamed finds a test; nil if there is none.
func testNamed(name string) test {
	if op, ok := comparisons[name]; ok {
		return func(r *run, v value, a args) bool {
			return r.holds(op, v, a.bind(name, "other")[0])
		}
	}
	if is := kindTests[name]; is != nil {
		return func(_ *run, v value, a args) bool {
			a.bind(name, "")
			return is(v)
		}
	}
	switch name {
	case "odd", "even", "divisibleby":
		return func(_ *run, v value, a args) bool { return divisible(name, v, a) }
	case "lower", "upper":
		return func(r *run, v value, a args) bool { return r.inCase(name, v, a) }
	case "sameas":
		return sameAs
	case "filter":
		return func(_ *run, v value, _ args) bool { return filters[textOf(v)] != nil }
	case "test":
		return func(_ *run, v value, _ args) bool { return testNamed(textOf(v)) != nil }
	}
	return nil
}

func textOf(v value) string {
	t, _ := v.(Text)
	return t.s
}

// kindTests are the tests of what a value is.
var kindTests = map[string]func(v value) bool{
	"undefined": is[undefined], "string": is[Text], "mapping": is[*Dict], "sequence": isSequence, "number": isNumber,
	"integer": is[int], "float": is[float64], "boolean": is[bool],
	"defined":  func(v value) bool { return !is[undefined](v) },
	"none":     func(v value) bool { return v == nil },
	"iterable": func(v value) bool { return is[*List](v) || is[*Dict](v) || is[Text](v) || is[undefined](v) },
	"true":     func(v value) bool { return v == true },
	"false":    func(v value) bool { return v == false },
	"callable": func(v value) bool { return is[*function](v) || is[*loop](v) || is[undefined](v) },
	"escaped":  func(value) bool { return false },
}

func is[T any](v value) bool {
	_, ok := v.(T)
	return ok
}

// isSequence is whether a value has a length and items by subscript, as Jinja
// asks for it: a dictionary has both.
func isSequence(v value) bool {
	l, ok := v.(*List)
	return ok && l.indexed() || is[*Dict](v) || is[Text](v) || is[undefined](v)
}

func divisible(name string, v value, a args) bool {
	by, parameters := 2, ""
	if name == "divisibleby" {
		parameters = "num"
	}
	given := a.bind(name, parameters)
	if len(given) > 0 {
		by = integer(given[0], 0)
	}
	defer within(typeName(v) + " cannot be divided")
	f, _ := number(numeric("%", v, by))
	return name == "odd" && f == 1 || name != "odd" && f == 0
}

// inCase is whether a string has letters, all of one case.
func (r *run) inCase(name string, v value, a args) bool {
	t := r.str(v)
	r.scan(len(t.s))
	a.bind(name, "")
	if name == "lower" {
		return allCased(t.s, unicode.IsLower, unicode.IsUpper)
	}
	return allCased(t.s, unicode.IsUpper, unicode.IsLower)
}

// allCased is whether some characters are of a case and none of the other.
func allCased(s string, wanted, other func(rune) bool) bool {
	some := false
	for _, c := range s {
		if other(c) || unicode.IsTitle(c) {
			return false
		}
		some = some || wanted(c)
	}
	return some
}

func sameAs(r *run, v value, a args) bool {
	other := a.bind("sameas", "other")[0]
	if typeName(v) != typeName(other) {
		return false
	}
	switch v.(type) {
	case *List, *Dict:
		return v == other
	}
	return r.equal(v, other, 0)
}
