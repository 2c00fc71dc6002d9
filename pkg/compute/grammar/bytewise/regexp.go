package bytewise

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Perl reads a regular expression as Go, Python and most others have it. What ECMA-262 alone
// has is known as well.
func Perl(expression string) (*Expression, error) {
	re, err := syntax.Parse(ecma16(expression), syntax.Perl)
	var wrong *syntax.Error
	if errors.As(err, &wrong) && (wrong.Code == syntax.ErrInvalidRepeatSize || wrong.Code == syntax.ErrInvalidEscape) {
		return ECMA(expression)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: lookaheads, lookbehinds and references back are not known", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return fromSyntax(re)
}

// Regexp makes the automaton of a text that all of a regular expression matches, as Perl reads it.
func Regexp(budget *Budget, expression string, o Options) (*DFA, error) {
	e, err := Perl(expression)
	if err != nil {
		return nil, err
	}
	return automaton(budget, e, o)
}

// automaton is that of an expression's texts, with nothing counted.
func automaton(budget *Budget, e *Expression, o Options) (*DFA, error) {
	body, err := NewBody(budget, []*Expression{e}, false, o)
	if err != nil {
		return nil, err
	}
	t, err := NewStrings(budget, body, AnyLength)
	if err != nil {
		return nil, err
	}
	return t.DFA(budget)
}

// ecma16 writes \uXXXX in the way of regexp/syntax.
func ecma16(expression string) string {
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

// fromSyntax takes an expression over.
func fromSyntax(re *syntax.Regexp) (*Expression, error) {
	out := &Expression{}
	switch re.Op {
	case syntax.OpNoMatch:
		out.op = opRunes
	case syntax.OpEmptyMatch:
	case syntax.OpLiteral:
		out.op = opJoin
		for _, r := range re.Rune {
			ranges := []rune{r, r}
			if re.Flags&syntax.FoldCase != 0 {
				ranges = folded(ranges)
			}
			out.sub = append(out.sub, &Expression{op: opRunes, runes: ranges})
		}
	case syntax.OpCharClass:
		out.op, out.runes = opRunes, normal(re.Rune)
	case syntax.OpAnyCharNotNL:
		out.op, out.runes = opRunes, []rune{0, '\n' - 1, '\n' + 1, utf8.MaxRune}
	case syntax.OpAnyChar:
		return anyRune(), nil
	case syntax.OpBeginText:
		out.op = opBegin
	case syntax.OpEndText:
		out.op = opEnd
	case syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return nil, errors.New(`\b and \B are not known`)
	case syntax.OpBeginLine, syntax.OpEndLine:
		return nil, errors.New("(?m) is not known")
	default:
		return fromCompound(re)
	}
	return out, nil
}

func fromCompound(re *syntax.Regexp) (*Expression, error) {
	out := &Expression{}
	for _, sub := range re.Sub {
		e, err := fromSyntax(sub)
		if err != nil {
			return nil, err
		}
		out.sub = append(out.sub, e)
	}
	switch re.Op {
	case syntax.OpCapture:
		return out.sub[0], nil
	case syntax.OpConcat:
		out.op = opJoin
	case syntax.OpAlternate:
		out.op = opEither
	case syntax.OpStar:
		return repeated(out.sub[0], 0, -1), nil
	case syntax.OpPlus:
		return repeated(out.sub[0], 1, -1), nil
	case syntax.OpQuest:
		return repeated(out.sub[0], 0, 1), nil
	case syntax.OpRepeat:
		return repeated(out.sub[0], re.Min, re.Max), nil
	default:
		return nil, fmt.Errorf("%v is not known", re.Op)
	}
	return out, nil
}
