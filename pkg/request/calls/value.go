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
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case v.text:
			v.inString(c)
			if !v.text && v.depth == 0 {
				return i + 1, true
			}
		case c == '"':
			if v.scalar {
				return i, true
			}
			v.text, v.begun = true, true
		case c == '{' || c == '[':
			if v.scalar {
				return i, true
			}
			v.depth++
			v.begun = true
		case c == '}' || c == ']':
			if v.depth == 0 {
				return i, true
			}
			if v.depth--; v.depth == 0 {
				return i + 1, true
			}
		case v.depth == 0 && v.begun && (c == ',' || isWhite(c)):
			return i, true
		case v.depth == 0 && !isWhite(c):
			v.begun, v.scalar = true, true
		}
	}
	return len(text), false
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
