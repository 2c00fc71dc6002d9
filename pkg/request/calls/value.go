package calls

// value follows one JSON value, to find its end. What is none ends where one would.
type value struct {
	depth   int
	begun   bool
	text    bool // within a string
	escaped bool
	scalar  bool // a number or a word, which what is behind it ends
}

// push says how much of a text belongs to the value, and whether it ends there.
func (v *value) push(text string) (n int, ended bool) {
	for i := range len(text) {
		switch v.take(text[i]) {
		case endsBefore:
			return i, true
		case endsWith:
			return i + 1, true
		}
	}
	return len(text), false
}

// What a byte is to a value.
const (
	goesOn = iota
	endsBefore
	endsWith
)

// take takes a byte in.
func (v *value) take(c byte) int {
	switch {
	case v.text:
		v.inString(c)
		return v.endsIf(!v.text && v.depth == 0)
	case v.depth == 0 && v.behind(c):
		return endsBefore
	case c == '"':
		v.text, v.begun = true, true
	case c == '{' || c == '[':
		v.depth++
		v.begun = true
	case c == '}' || c == ']':
		v.depth--
		return v.endsIf(v.depth == 0)
	case v.depth == 0 && !isWhite(c):
		v.begun, v.scalar = true, true
	}
	return goesOn
}

// behind reports whether a byte outside of all brackets is what stands behind the value.
func (v *value) behind(c byte) bool {
	switch c {
	case '}', ']':
		return true
	case '"', '{', '[':
		return v.scalar
	}
	return v.begun && (c == ',' || isWhite(c))
}

func (v *value) endsIf(is bool) int {
	if is {
		return endsWith
	}
	return goesOn
}

func (v *value) inString(c byte) {
	switch {
	case v.escaped:
		v.escaped = false
	case c == '\\':
		v.escaped = true
	case c == '"':
		v.text = false
	}
}

func isWhite(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
