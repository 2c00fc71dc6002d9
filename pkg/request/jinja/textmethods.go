package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// textMethodNamed finds a string's method; nil if there is none.
func textMethodNamed(t Text, name string) callable {
	if f := caseMethod(t, name); f != nil {
		return bounded(t, name, f)
	}
	if f := classes[name]; f != nil {
		return bounded(t, name, func() value { return f(t.s) })
	}
	with := func(f func(*run, Text, args) value) callable {
		return func(r *run, a args) value {
			r.scan(len(t.s))
			defer within(name)
			return f(r, t, a)
		}
	}
	switch name {
	case "strip", "lstrip", "rstrip":
		return with(func(r *run, t Text, a args) value { return r.strip(t, name, a) })
	case "split", "rsplit":
		return with(func(r *run, t Text, a args) value { return r.split(t, name == "rsplit", a) })
	case "splitlines":
		return with(splitLines)
	case "partition", "rpartition":
		return with(func(r *run, t Text, a args) value { return partition(t, name == "rpartition", a) })
	case "replace":
		return with(replace)
	case "join":
		return with(joinMethod)
	case "startswith", "endswith":
		return with(func(r *run, t Text, a args) value { return r.affix(t, name == "endswith", a) })
	case "removeprefix", "removesuffix":
		return with(func(_ *run, t Text, a args) value { return remove(t, name == "removesuffix", a) })
	case "find", "rfind", "index", "rindex":
		return with(func(_ *run, t Text, a args) value { return find(t, name, a) })
	case "count":
		return with(count)
	case "zfill", "ljust", "rjust", "center":
		return with(func(r *run, t Text, a args) value { return r.pad(t, name, a) })
	case "format":
		return with(formatMethod)
	}
	return nil
}

// bounded returns a method without arguments that goes through the string once.
func bounded(t Text, name string, f func() value) callable {
	return func(r *run, a args) value {
		a.bind(name, "")
		r.make(3 * len(t.s))
		return f()
	}
}

func caseMethod(t Text, name string) func() value {
	switch name {
	case "upper":
		return func() value { return t.mapped(upper) }
	case "lower", "casefold":
		return func() value { return t.mapped(strings.ToLower) }
	case "title":
		return func() value { return t.as(title(t.s, false)) }
	case "capitalize":
		return func() value { return t.as(title(t.s, true)) }
	}
	return nil
}

// upper is Python's, where ß has two letters.
func upper(s string) string {
	return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS")
}

// title makes the first letter of each word large, or of the first character
// alone, and the others small.
func title(s string, once bool) string {
	var b strings.Builder
	first := true
	for _, c := range s {
		if first {
			b.WriteString(strings.ReplaceAll(string(unicode.ToTitle(c)), "ß", "Ss"))
		} else {
			b.WriteRune(unicode.ToLower(c))
		}
		first = !once && !unicode.IsLetter(c)
	}
	return b.String()
}

// classes are the methods that ask of what characters a string is; one that is empty is of none but isascii's.
var classes = map[string]func(string) bool{
	"isdigit": every(unicode.IsDigit), "isdecimal": every(unicode.IsDigit), "isnumeric": every(unicode.IsNumber), "isalpha": every(unicode.IsLetter),
	"isalnum": every(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
	"isspace": every(isSpace),
	"isupper": func(s string) bool { return allCased(s, unicode.IsUpper, unicode.IsLower) },
	"islower": func(s string) bool { return allCased(s, unicode.IsLower, unicode.IsUpper) },
	"isascii": func(s string) bool { return strings.IndexFunc(s, func(c rune) bool { return c >= utf8.RuneSelf }) < 0 },
}

func every(is func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
	}
}

func (r *run) strip(t Text, name string, a args) value {
	given := a.bind(name, "chars?")
	cut := isSpace
	if given[0] != (absent{}) && given[0] != nil {
		cut = r.among(texts(given[0], "").s)
	}
	left := func(s string) string { return strings.TrimLeftFunc(s, cut) }
	right := func(s string) string { return strings.TrimRightFunc(s, cut) }
	switch name {
	case "lstrip":
		right = nil
	case "rstrip":
		left = nil
	}
	return t.trimmed(left, right)
}

// among reports whether a character is one of a string's, however many those are.
func (r *run) among(s string) func(rune) bool {
	r.makeItems(len(s))
	set := make(map[rune]bool)
	for _, c := range s {
		set[c] = true
	}
	return func(c rune) bool { return set[c] }
}

// replace is replace(old, new, count=-1).
func replace(r *run, t Text, a args) value {
	given := a.bind("replace", "old new count?")
	was := texts(given[0], "")
	now := texts(given[1], "")
	limit := -1
	if given[2] != nil {
		limit = integer(given[2], -1)
	}
	n := strings.Count(t.s, was.s)
	if limit >= 0 {
		n = min(n, limit)
	}
	r.make(t.size() + product(n, now.size()) + itemBytes*n)
	return replaced(t, was.s, now, n)
}

// replaced replaces the first n occurrences; an empty one is before each character and at the end.
func replaced(t Text, was string, now Text, n int) Text {
	var w textWriter
	at := 0
	for i := range n {
		next := at
		if was != "" {
			next += strings.Index(t.s[at:], was)
		} else if i > 0 {
			_, size := utf8.DecodeRuneInString(t.s[at:])
			next += size
		}
		w.add(t.slice(at, next))
		w.add(now)
		at = next + len(was)
	}
	w.add(t.slice(at, len(t.s)))
	return w.text()
}

func joinMethod(r *run, t Text, a args) value {
	given := a.bind("join", "iterable")
	items := r.items(given[0])
	for _, item := range items {
		if _, ok := item.(Text); !ok {
			panic(failf("%s is no string", typeName(item)))
		}
	}
	return join(r, NewList(items...), args{values: []value{t}})
}

// startAt returns the byte at which to begin, of an argument that counts characters, from
// the end if it is negative.
func startAt(t Text, v value) int {
	start := integer(v, 0)
	if start < 0 {
		start = max(0, start+utf8.RuneCountInString(t.s))
	}
	return byteOffset(t.s, start)
}

// affix is startswith(prefix, start=0), where prefix may be a tuple of them, or endswith.
func (r *run) affix(t Text, at bool, a args) value {
	given := a.bind("startswith or endswith", "affix start?")
	from := startAt(t, given[1])
	rest := t.s[from:]
	parts := []value{given[0]}
	if l, ok := given[0].(*List); ok && l.kind == tuple {
		parts = l.items
	}
	for _, p := range parts {
		part := texts(p, "")
		r.scan(min(len(part.s), len(rest)))
		if at && strings.HasSuffix(rest, part.s) || !at && strings.HasPrefix(rest, part.s) {
			return true
		}
	}
	return false
}

func remove(t Text, suffix bool, a args) value {
	given := a.bind("removeprefix or removesuffix", "affix")
	part := texts(given[0], "")
	if suffix {
		return t.slice(0, len(strings.TrimSuffix(t.s, part.s)))
	}
	return t.slice(len(t.s)-len(strings.TrimPrefix(t.s, part.s)), len(t.s))
}

// find is find(sub, start=0) and its like; places count characters.
func find(t Text, name string, a args) value {
	given := a.bind(name, "sub start?")
	part := texts(given[0], "")
	from := startAt(t, given[1])
	look := strings.Index
	if name[0] == 'r' {
		look = strings.LastIndex
	}
	if at := look(t.s[from:], part.s); at >= 0 {
		return utf8.RuneCountInString(t.s[:from+at])
	}
	if strings.HasSuffix(name, "index") {
		panic(failf("the string does not have this part"))
	}
	return -1
}

func count(_ *run, t Text, a args) value {
	return strings.Count(t.s, texts(a.bind("count", "sub")[0], "").s)
}
