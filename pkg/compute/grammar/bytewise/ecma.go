package bytewise

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ECMA reads a regular expression as ECMA-262 has it, by characters and not by halves of pairs.
// Of groups' flags it knows i, m and s.
func ECMA(text string) (*Expression, error) {
	p := &ecma{text: text}
	e, err := p.either()
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, errors.New("missing opening ( before )")
	}
	return e, nil
}

// maxGroups bounds groups within groups.
const maxGroups = 100

// ecma reads one expression.
type ecma struct {
	text       string
	at         int
	depth      int
	fold, dots bool // letters of either case are one; dots are any character
}

// MaxTimes bounds counts: no text of an answer has more characters or items.
const MaxTimes = 1 << 24

func (p *ecma) rest() string { return p.text[p.at:] }

// take passes over a text, if it stands there.
func (p *ecma) take(text string) bool {
	if !strings.HasPrefix(p.rest(), text) {
		return false
	}
	p.at += len(text)
	return true
}

func (p *ecma) next() rune {
	r, size := utf8.DecodeRuneInString(p.rest())
	p.at += size
	return r
}

func (p *ecma) either() (*Expression, error) {
	if p.depth++; p.depth > maxGroups {
		return nil, fmt.Errorf("groups are nested more than %d deep", maxGroups)
	}
	fold, dots := p.fold, p.dots
	defer func() { p.depth--; p.fold, p.dots = fold, dots }()
	out := &Expression{op: opEither}
	for {
		e, err := p.join()
		if err != nil {
			return nil, err
		}
		out.sub = append(out.sub, e)
		if !p.take("|") {
			break
		}
	}
	if len(out.sub) == 1 {
		return out.sub[0], nil
	}
	return out, nil
}

func (p *ecma) join() (*Expression, error) {
	out := &Expression{op: opJoin}
	for p.at < len(p.text) && p.text[p.at] != '|' && p.text[p.at] != ')' {
		e, err := p.atom()
		if err == nil {
			e, err = p.times(e)
		}
		if err != nil {
			return nil, err
		}
		out.sub = append(out.sub, e)
	}
	if len(out.sub) == 1 {
		return out.sub[0], nil
	}
	return out, nil
}

// times reads how often what stands before is there.
func (p *ecma) times(e *Expression) (*Expression, error) {
	for first := true; ; first = false {
		least, most, is, err := p.count()
		switch {
		case err != nil:
			return nil, err
		case !is:
			return e, nil
		case !first:
			return nil, errors.New("a repetition of a repetition: put it into a group")
		case e.op == opBegin || e.op == opEnd:
			return nil, errors.New("missing argument to repetition operator")
		}
		p.take("?") // as few as can be, or as many: it is the same texts
		e = repeated(e, least, most)
	}
}

// count reads *, +, ? or {m,n}.
func (p *ecma) count() (least, most int, is bool, err error) {
	switch {
	case p.take("*"):
		return 0, -1, true, nil
	case p.take("+"):
		return 1, -1, true, nil
	case p.take("?"):
		return 0, 1, true, nil
	case !strings.HasPrefix(p.rest(), "{"):
		return 0, 0, false, nil
	}
	inside, _, closed := strings.Cut(p.rest()[1:], "}")
	low, high, two := strings.Cut(inside, ",")
	if !closed || !isDigits(low) || high != "" && !isDigits(high) {
		return 0, 0, false, nil // a brace as it is
	}
	p.at += len(inside) + 2
	if least, err = strconv.Atoi(low); err != nil || least > MaxTimes {
		return 0, 0, false, fmt.Errorf("{%.20s}: a repetition of more than %d has no room in any answer", inside, MaxTimes)
	}
	most = least
	if two {
		if most, err = strconv.Atoi(high); err != nil || most > MaxTimes {
			most = -1 // more than any answer has
		}
	}
	if most >= 0 && most < least {
		return 0, 0, false, fmt.Errorf("{%.20s}: numbers out of order in a repetition", inside)
	}
	return least, most, true, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func isHex(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

func (p *ecma) atom() (*Expression, error) {
	switch c := p.next(); c {
	case '^':
		return &Expression{op: opBegin}, nil
	case '$':
		return &Expression{op: opEnd}, nil
	case '.':
		if p.dots {
			return anyRune(), nil
		}
		return p.runes(complement(lineEnds)), nil
	case '(':
		return p.group()
	case '[':
		return p.class()
	case '\\':
		return p.escaped()
	case '*', '+', '?':
		return nil, fmt.Errorf("missing argument to repetition operator: %c", c)
	default:
		return p.runes([]rune{c, c}), nil
	}
}

// runes returns one character of ranges.
func (p *ecma) runes(ranges []rune) *Expression {
	if p.fold {
		ranges = folded(ranges)
	}
	return &Expression{op: opRunes, runes: ranges}
}

func (p *ecma) group() (*Expression, error) {
	switch {
	case strings.HasPrefix(p.rest(), "?="), strings.HasPrefix(p.rest(), "?!"):
		return nil, errors.New("lookaheads, (?=…) and (?!…), are not known")
	case strings.HasPrefix(p.rest(), "?<="), strings.HasPrefix(p.rest(), "?<!"):
		return nil, errors.New("lookbehinds, (?<=…) and (?<!…), are not known")
	case p.take("?<"), p.take("?P<"):
		name, _, closed := strings.Cut(p.rest(), ">")
		if !closed {
			return nil, errors.New("missing closing > of a group's name")
		}
		p.at += len(name) + 1
	case p.take("?"):
		return p.flagged()
	}
	return p.closed()
}

// closed reads a group up to its end.
func (p *ecma) closed() (*Expression, error) {
	e, err := p.either()
	if err == nil && !p.take(")") {
		err = errors.New("missing closing )")
	}
	return e, err
}

// flagged reads a group that sets flags: up to its end, or for the rest of the one around it.
func (p *ecma) flagged() (*Expression, error) {
	end := strings.IndexAny(p.rest(), ":)")
	if end < 0 {
		return nil, errors.New("missing closing )")
	}
	flags := p.rest()[:end]
	alone := p.rest()[end] == ')'
	p.at += end + 1
	fold, dots, on := p.fold, p.dots, true
	for _, f := range flags {
		switch {
		case f == '-' && on:
			on = false
		case f == 'i':
			p.fold = on
		case f == 's':
			p.dots = on
		default:
			return nil, fmt.Errorf("(?%.20s) is not known", flags)
		}
	}
	if alone {
		return &Expression{op: opEmpty}, nil
	}
	e, err := p.closed()
	p.fold, p.dots = fold, dots
	return e, err
}

// The characters of \d, \w and \s, and those that end lines.
var (
	digits   = []rune{'0', '9'}
	words    = []rune{'0', '9', 'A', 'Z', '_', '_', 'a', 'z'}
	spaces   = []rune{'\t', '\r', ' ', ' ', 0xa0, 0xa0, 0x1680, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x202f, 0x205f, 0x205f, 0x3000, 0x3000, 0xfeff, 0xfeff}
	lineEnds = []rune{'\n', '\n', '\r', '\r', 0x2028, 0x2029}
)

// escaped reads what stands behind a backslash outside of classes.
func (p *ecma) escaped() (*Expression, error) {
	rest := p.rest()
	switch {
	case strings.HasPrefix(rest, "b"), strings.HasPrefix(rest, "B"):
		return nil, errors.New(`\b and \B are not known`)
	case rest != "" && rest[0] >= '1' && rest[0] <= '9', strings.HasPrefix(rest, "k<"):
		return nil, fmt.Errorf(`references back, \%.1s, are not known`, rest)
	}
	ranges, _, err := p.escape()
	if err != nil {
		return nil, err
	}
	return p.runes(ranges), nil
}

// escape reads what stands behind a backslash: one character, or some.
func (p *ecma) escape() (ranges []rune, single bool, err error) {
	if p.at == len(p.text) {
		return nil, false, errors.New("a backslash at the end")
	}
	c := p.next()
	if ranges := map[rune][]rune{'d': digits, 'w': words, 's': spaces}[unicode.ToLower(c)]; ranges != nil {
		if unicode.IsUpper(c) {
			ranges = complement(ranges)
		}
		return ranges, false, nil
	}
	r := c
	switch c {
	case 'p', 'P':
		ranges, err = p.property()
		if c == 'P' {
			ranges = complement(ranges)
		}
		return ranges, false, err
	case 't', 'n', 'v', 'f', 'r':
		r = map[rune]rune{'t': '\t', 'n': '\n', 'v': '\v', 'f': '\f', 'r': '\r'}[c]
	case '0':
		r = 0
	case 'c':
		if letter := p.next(); letter < utf8.RuneSelf && unicode.IsLetter(letter) {
			r = letter & 0x1f
		} else {
			return nil, false, errors.New(`\c is not known without a letter`)
		}
	case 'x', 'u':
		if r, err = p.numbered(c); err != nil {
			return nil, false, err
		}
	default:
		if c < utf8.RuneSelf && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			return nil, false, fmt.Errorf(`\%c is not known`, c)
		}
	}
	return []rune{r, r}, true, nil
}

// numbered reads the number of a character: \xHH, \x{H…}, \uHHHH, \u{H…}, or a pair of \uHHHH.
func (p *ecma) numbered(kind rune) (rune, error) {
	text, size := p.rest(), map[rune]int{'x': 2, 'u': 4}[kind]
	if strings.HasPrefix(text, "{") {
		text, _, _ = strings.Cut(text[1:], "}")
		p.at += min(len(text)+2, len(p.rest()))
	} else {
		text = text[:min(size, len(text))]
		if p.at += len(text); len(text) < size {
			text = ""
		}
	}
	n, err := strconv.ParseInt(text, 16, 32)
	if err != nil || !isHex(text) || n > utf8.MaxRune {
		return 0, fmt.Errorf(`\%c is not known without the number of a character`, kind)
	}
	r := rune(n)
	if rest := p.rest(); r >= firstHalf && r < firstHalf+0x400 && len(rest) >= 6 && rest[:2] == `\u` && isHex(rest[2:6]) {
		if low, _ := strconv.ParseInt(rest[2:6], 16, 32); low >= firstHalf+0x400 && low <= lastHalf {
			p.at += 6
			r = (r-firstHalf)<<10 + (rune(low) - firstHalf - 0x400) + 0x10000
		}
	}
	return r, nil
}

// property reads {Name}, {Name=Value} or one letter.
func (p *ecma) property() ([]rune, error) {
	name := ""
	if p.take("{") {
		inside, _, closed := strings.Cut(p.rest(), "}")
		if !closed {
			return nil, errors.New(`missing closing } of \p`)
		}
		p.at += len(inside) + 1
		name = inside
	} else if p.at < len(p.text) {
		name = string(p.next())
	}
	if ranges := propertyOf(name); ranges != nil {
		return ranges, nil
	}
	return nil, fmt.Errorf(`\p{%.40s} is not known`, name)
}

// unions are properties that others make.
var unions = map[string][]string{
	"Alphabetic": {"L", "Nl", "Other_Alphabetic"}, "Uppercase": {"Lu", "Other_Uppercase"}, "Lowercase": {"Ll", "Other_Lowercase"},
	"LC": {"Lu", "Ll", "Lt"},
}

// categories are the long names of general categories.
var categories = map[string]string{
	"Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
	"Mark": "M", "Combining_Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc", "Enclosing_Mark": "Me",
	"Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe",
	"Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
	"Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
	"Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
	"Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co",
	"Alpha": "Alphabetic", "Upper": "Uppercase", "Lower": "Lowercase", "space": "White_Space",
}

// propertyOf returns the characters of a property; nil: it is not known.
func propertyOf(name string) []rune {
	if kind, value, two := strings.Cut(name, "="); two {
		switch kind {
		case "Script", "sc":
			if t := unicode.Scripts[value]; t != nil {
				return rangesOf(t)
			}
			return nil
		case "General_Category", "gc":
			name = value
		default:
			return nil
		}
	}
	if short, ok := categories[name]; ok {
		name = short
	}
	switch name {
	case "Any":
		return []rune{0, utf8.MaxRune}
	case "ASCII":
		return []rune{0, 0x7f}
	}
	if parts := unions[name]; parts != nil {
		var all []rune
		for _, part := range parts {
			all = append(all, propertyOf(part)...)
		}
		return normal(all)
	}
	for _, tables := range []map[string]*unicode.RangeTable{unicode.Categories, unicode.Properties, unicode.Scripts} {
		if t := tables[name]; t != nil {
			return rangesOf(t)
		}
	}
	return nil
}

// class reads characters in brackets.
func (p *ecma) class() (*Expression, error) {
	not := p.take("^")
	var all []rune
	for !p.take("]") {
		if p.at == len(p.text) {
			return nil, errors.New("missing closing ]")
		}
		low, single, err := p.member()
		if err != nil {
			return nil, err
		}
		rest := p.rest()
		if !single || len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
			all = append(all, low...)
			continue
		}
		p.at++
		high, single, err := p.member()
		switch {
		case err != nil:
			return nil, err
		case !single: // the dash stands for itself
			all = append(append(all, low...), append(high, '-', '-')...)
		case high[0] < low[0]:
			return nil, fmt.Errorf("invalid range %c-%c of a class", low[0], high[0])
		default:
			all = append(all, low[0], high[0])
		}
	}
	if all = normal(all); p.fold {
		all = folded(all)
	}
	if not {
		all = complement(all)
	}
	return &Expression{op: opRunes, runes: all}, nil
}

// member reads one character of a class, or some.
func (p *ecma) member() (ranges []rune, single bool, err error) {
	switch {
	case p.take(`\b`):
		return []rune{'\b', '\b'}, true, nil
	case p.take(`\-`):
		return []rune{'-', '-'}, true, nil
	case p.take(`\`):
		return p.escape()
	}
	r := p.next()
	return []rune{r, r}, true, nil
}
