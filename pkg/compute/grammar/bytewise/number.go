package bytewise

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Numbers are what a number may be. Without bounds and MultipleOf it may have an exponent.
type Numbers struct {
	// Integer leaves out fractions.
	Integer bool
	// Low and High are the least and the most; nil: none.
	Low, High *Bound
	// MultipleOf is what a number divides by; nil: nothing.
	MultipleOf *Decimal
}

// Bound is the least or the most that a number may be, or what it may not reach.
type Bound struct {
	Decimal
	Exclusive bool
}

// Decimal is a number by its digits: whole ones without zeros before them but the last one's,
// and those behind the point without zeros at their end.
type Decimal struct {
	Negative        bool
	Whole, Fraction string
}

// Compare is -1, 0 or 1.
func (d Decimal) Compare(other Decimal) int {
	if d.Negative != other.Negative {
		if d.Negative {
			return -1
		}
		return 1
	}
	c := cmp.Or(cmp.Compare(len(d.Whole), len(other.Whole)), cmp.Compare(d.Whole, other.Whole), cmp.Compare(d.Fraction, other.Fraction))
	if d.Negative {
		return -c
	}
	return c
}

// maxDigits bounds the digits of a bound before and behind its point.
const maxDigits = 40

// ParseDecimal reads a number as JSON writes it.
func ParseDecimal(text string) (Decimal, error) {
	d := Decimal{Negative: strings.HasPrefix(text, "-")}
	digits, power, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(text, "-")), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	shift := 0
	if power != "" {
		n, err := strconv.Atoi(strings.TrimPrefix(power, "+"))
		if err != nil || n > maxDigits || n < -maxDigits {
			return d, fmt.Errorf("%.40s has a power of ten that is too large; at most %d digits are allowed before and behind the point", text, maxDigits)
		}
		shift = n
	}
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return d, fmt.Errorf("%.40q is not a number", text)
	}
	if shift > 0 {
		fraction += strings.Repeat("0", max(0, shift-len(fraction)))
		whole, fraction = whole+fraction[:shift], fraction[shift:]
	} else {
		whole = strings.Repeat("0", max(0, -shift-len(whole))) + whole
		whole, fraction = whole[:len(whole)+shift], whole[len(whole)+shift:]+fraction
	}
	d.Whole, d.Fraction = cmp.Or(strings.TrimLeft(whole, "0"), "0"), strings.TrimRight(fraction, "0")
	if len(d.Whole) > maxDigits || len(d.Fraction) > maxDigits {
		return d, fmt.Errorf("%.40s has too many digits; at most %d are allowed before and behind the point", text, maxDigits)
	}
	d.Negative = d.Negative && (d.Whole != "0" || d.Fraction != "")
	return d, nil
}

// Within returns the number of the digits that are allowed next to one that has more, if all numbers
// beyond it are: above the least one, or below the most.
func Within(text string, least bool) (Decimal, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || f == 0 {
		return Decimal{}, false
	}
	d := Decimal{Negative: f < 0, Whole: strings.Repeat("9", maxDigits)}
	switch size := math.Abs(f); {
	case size >= 1e40:
		return d, d.Negative == least
	case size > 1e-40:
		return d, false
	case d.Negative == least:
		return Decimal{Whole: "0"}, true
	}
	d.Whole, d.Fraction = "0", strings.Repeat("0", maxDigits-1)+"1"
	return d, true
}

// Where in a number its text is.
const (
	atBegin = iota
	atSign
	inZero  // a whole part of 0
	inWhole // another one
	atPoint
	inFraction
)

// against is how what was read compares with a bound.
type against struct {
	digits int8 // of the whole part, or behind the point, as far as they matter
	order  int8 // -1, 0, 1
}

type numberState struct {
	where     uint8
	negative  bool
	low, high against
	rest      int32 // divided by MultipleOf
	behind    int8  // digits behind the point, as far as they matter
}

// numbers explores Numbers.
type numbers struct {
	Numbers
	divisor int32 // MultipleOf's digits; 0: none
	digits  int   // of them behind the point
}

// maxDivisor bounds the digits of MultipleOf, read as a whole number.
const maxDivisor = 20_000

// DFA accepts such numbers.
func (n Numbers) DFA(b *Budget) (*DFA, error) {
	if n.Low == nil && n.High == nil && n.MultipleOf == nil && !n.Integer {
		return Regexp(b, `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`, Options{})
	}
	m := &numbers{Numbers: n}
	if of := n.MultipleOf; of != nil {
		v, err := strconv.ParseInt(of.Whole+of.Fraction, 10, 64)
		if err != nil || v > maxDivisor {
			return nil, fmt.Errorf("at most %d is allowed, read without its point", maxDivisor)
		}
		if v == 0 || of.Negative {
			return nil, errors.New("it must be above 0")
		}
		m.divisor, m.digits = int32(v), len(of.Fraction)
	}
	return Explore(b, numberState{}, "-.0123456789", m.step, m.accepts)
}

// bounds returns those of the digits of a number.
func (n *numbers) bounds(negative bool) (low, high *Bound) {
	if !negative {
		return n.Low, n.High
	}
	return n.High.negated(), n.Low.negated()
}

func (b *Bound) negated() *Bound {
	if b == nil {
		return nil
	}
	out := *b
	out.Negative = !b.Negative && (b.Whole != "0" || b.Fraction != "")
	return &out
}

func (n *numbers) step(s numberState, c byte) (numberState, bool) {
	low, high := n.bounds(s.negative)
	switch {
	case c == '-':
		return numberState{where: atSign, negative: true}, s.where == atBegin
	case c == '.':
		ok := !n.Integer && (s.where == inZero || s.where == inWhole)
		s.where, s.low, s.high = atPoint, s.low.point(low), s.high.point(high)
		return s, ok
	case s.where == inZero:
		return s, false
	case s.where >= atPoint:
		return n.fraction(s, c, low, high)
	}
	first := s.where < inZero
	if s.where = inWhole; first && c == '0' {
		s.where = inZero
	}
	s.low, s.high = s.low.whole(low, c), s.high.whole(high, c)
	if n.divisor > 0 {
		s.rest = (s.rest*10 + int32(c-'0')) % n.divisor
	}
	return s, true
}

func (n *numbers) fraction(s numberState, c byte, low, high *Bound) (numberState, bool) {
	if s.where == atPoint {
		s.where, s.behind = inFraction, 0
	}
	s.low, s.high = s.low.behind(low, c), s.high.behind(high, c)
	if n.divisor == 0 {
		return s, true
	}
	if int(s.behind) == n.digits {
		return s, c == '0'
	}
	s.behind++
	s.rest = (s.rest*10 + int32(c-'0')) % n.divisor
	return s, true
}

func (n *numbers) accepts(s numberState) bool {
	if s.where != inZero && s.where != inWhole && s.where != inFraction {
		return false
	}
	low, high := n.bounds(s.negative)
	over, under := s.low.settled(low, s.where), s.high.settled(high, s.where)
	if low != nil && (over < 0 || over == 0 && low.Exclusive) || high != nil && (under > 0 || under == 0 && high.Exclusive) {
		return false
	}
	if n.divisor == 0 {
		return true
	}
	behind := 0
	if s.where == inFraction {
		behind = int(s.behind)
	}
	rest := int64(s.rest)
	for range n.digits - behind {
		rest = rest * 10 % int64(n.divisor)
	}
	return rest == 0
}

// tracked reports whether digits have to be compared: all are above what is negative.
func (b *Bound) tracked() bool { return b != nil && !b.Negative }

func (a against) whole(b *Bound, c byte) against {
	if !b.tracked() {
		return a
	}
	at := int(a.digits)
	if at < len(b.Whole) && a.order == 0 {
		a.order = int8(cmp.Compare(c, b.Whole[at]))
	}
	a.digits = int8(min(at+1, len(b.Whole)+1))
	return a
}

// point settles the whole part.
func (a against) point(b *Bound) against {
	if !b.tracked() {
		return a
	}
	if int(a.digits) != len(b.Whole) {
		a.order = int8(cmp.Compare(int(a.digits), len(b.Whole)))
	}
	a.digits = 0
	return a
}

func (a against) behind(b *Bound, c byte) against {
	if !b.tracked() || a.order != 0 {
		return against{order: a.order}
	}
	want := byte('0')
	if int(a.digits) < len(b.Fraction) {
		want = b.Fraction[a.digits]
		a.digits++
	}
	a.order = int8(cmp.Compare(c, want))
	return a
}

// settled compares a whole number, or one with all its digits, with a bound.
func (a against) settled(b *Bound, where uint8) int8 {
	switch {
	case b == nil:
		return 0
	case b.Negative:
		return 1
	case where != inFraction:
		a = a.point(b)
	}
	if a.order == 0 && int(a.digits) < len(b.Fraction) {
		return -1
	}
	return a.order
}
