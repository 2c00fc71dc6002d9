package bytewise

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options say how a regular expression is meant.
type Options struct {
	// Quoted has characters as JSON's strings have them.
	Quoted bool
	// Plain has no escapes of characters that can stand as they are, and one for each other.
	Plain bool
	// Search accepts what has a match anywhere; else all has to match.
	Search bool
}

// Regexp makes the automaton of a regular expression.
func Regexp(budget *Budget, expression string, o Options) (*DFA, error) {
	re, err := syntax.Parse(ecma(expression), syntax.Perl)
	if err != nil {
		return nil, notKnown(err)
	}
	n := newNFA(budget, o)
	start := n.add()
	if o.Search {
		n.loop(start)
	}
	end, err := n.expression(re, start)
	if err != nil {
		return nil, err
	}
	n.match = end
	if o.Search {
		n.match = n.add()
		n.free(end, n.match)
		n.universal = true
		n.loop(n.match)
	}
	return n.determine(start)
}

// notKnown says what a regular expression has that is not known.
func notKnown(err error) error {
	why := "lookaheads, lookbehinds and references back are not known"
	var wrong *syntax.Error
	if errors.As(err, &wrong) && wrong.Code == syntax.ErrInvalidRepeatSize {
		why = "a repetition may be of 1000 at most, with those around it"
	}
	return fmt.Errorf("%s: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "), why)
}

// Text accepts strings of so many characters; most < 0: however many more.
func Text(budget *Budget, least, most int, o Options) (*DFA, error) {
	n := newNFA(budget, o)
	start := n.add()
	end, err := n.repeat(start, least, most, func(from int32) (int32, error) { return n.anyRune(from), n.err })
	if err != nil {
		return nil, err
	}
	n.match = end
	return n.determine(start)
}

// ecma writes what ECMA-262 has in another way than regexp/syntax: \uXXXX.
func ecma(expression string) string {
	if !strings.Contains(expression, `\u`) {
		return expression
	}
	var out strings.Builder
	for i := 0; i < len(expression); i++ {
		if expression[i] != '\\' || i+1 == len(expression) {
			out.WriteByte(expression[i])
			continue
		}
		if expression[i+1] == 'u' && i+6 <= len(expression) && isHex(expression[i+2:i+6]) {
			out.WriteString(`\x{` + expression[i+2:i+6] + `}`)
			i += 5
			continue
		}
		out.WriteString(expression[i : i+2])
		i++
	}
	return out.String()
}

func isHex(s string) bool {
	return strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// expression adds an expression behind a node, and returns the node behind it.
func (n *nfa) expression(re *syntax.Regexp, from int32) (int32, error) {
	if n.err != nil {
		return from, n.err
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return n.add(), n.err
	case syntax.OpEmptyMatch:
		return from, nil
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			from = n.runes(from, foldsOf(r, re.Flags&syntax.FoldCase != 0))
		}
		return from, n.err
	case syntax.OpCharClass:
		return n.runes(from, re.Rune), n.err
	case syntax.OpAnyCharNotNL:
		return n.runes(from, []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}), n.err
	case syntax.OpAnyChar:
		return n.anyRune(from), n.err
	case syntax.OpBeginText, syntax.OpEndText:
		to := n.add()
		if re.Op == syntax.OpBeginText {
			n.nodes[from].begin = append(n.nodes[from].begin, to)
		} else {
			n.nodes[from].end = append(n.nodes[from].end, to)
		}
		return to, n.err
	}
	return n.compound(re, from)
}

func (n *nfa) compound(re *syntax.Regexp, from int32) (int32, error) {
	again := func(from int32) (int32, error) { return n.expression(re.Sub[0], from) }
	switch re.Op {
	case syntax.OpCapture:
		return again(from)
	case syntax.OpStar:
		return n.repeat(from, 0, -1, again)
	case syntax.OpPlus:
		return n.repeat(from, 1, -1, again)
	case syntax.OpQuest:
		return n.repeat(from, 0, 1, again)
	case syntax.OpRepeat:
		return n.repeat(from, re.Min, re.Max, again)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			var err error
			if from, err = n.expression(sub, from); err != nil {
				return from, err
			}
		}
		return from, nil
	case syntax.OpAlternate:
		end := n.add()
		for _, sub := range re.Sub {
			begin := n.add()
			n.free(from, begin)
			to, err := n.expression(sub, begin)
			if err != nil {
				return to, err
			}
			n.free(to, end)
		}
		return end, n.err
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return from, errors.New(`\b and \B are not known`)
	}
	return from, errors.New("(?m) is not known")
}

// repeat adds something some times; most < 0: however many more.
func (n *nfa) repeat(from int32, least, most int, what func(from int32) (int32, error)) (int32, error) {
	var err error
	for range least {
		if from, err = what(from); err != nil {
			return from, err
		}
	}
	end := n.add()
	n.free(from, end)
	if most < 0 {
		begin := n.add()
		n.free(from, begin)
		to, err := what(begin)
		n.free(to, begin)
		n.free(to, end)
		return end, errors.Join(err, n.err)
	}
	for range most - least {
		begin := n.add()
		n.free(from, begin)
		if from, err = what(begin); err != nil {
			return from, err
		}
		n.free(from, end)
	}
	return end, n.err
}

// foldsOf are the ranges of a character, and of those that differ from it in case alone.
func foldsOf(r rune, fold bool) []rune {
	out := []rune{r, r}
	if fold {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			out = append(out, f, f)
		}
	}
	return out
}
