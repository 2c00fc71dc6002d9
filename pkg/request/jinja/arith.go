package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

func (e binary) eval(r *run, s *scope) (value, error) {
	a, err := e.a.eval(r, s)
	if err != nil {
		return nil, err
	}
	b, err := e.b.eval(r, s)
	if err == nil {
		err = r.step(1)
	}
	if err != nil {
		return nil, err
	}
	if e.op == "~" {
		return r.concat(a, b)
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(undefined); ok {
			return nil, u.error()
		}
	}
	return r.binary(e.op, a, b)
}

// concat is a ~ b: both as strings.
func (r *run) concat(a, b value) (value, error) {
	x, err := r.str(a)
	if err != nil {
		return nil, err
	}
	y, err := r.str(b)
	if err != nil {
		return nil, err
	}
	return r.join(x, y)
}

func (r *run) join(a, b Text) (value, error) {
	if err := r.make(a.size() + b.size()); err != nil {
		return nil, err
	}
	return concat(a, b), nil
}

func (r *run) binary(op string, a, b value) (value, error) {
	switch x := a.(type) {
	case Text:
		y, ok := b.(Text)
		switch {
		case op == "+" && ok:
			return r.join(x, y)
		case op == "%":
			return r.format(x, b)
		}
	case *List:
		if y, ok := b.(*List); ok && op == "+" && x.indexed() && x.kind == y.kind {
			return &List{items: slices.Concat(x.items, y.items), kind: x.kind}, r.makeItems(len(x.items) + len(y.items))
		}
	}
	if op == "*" {
		if n, ok := whole(b); ok && !isNumber(a) {
			return r.repeat(a, n)
		}
		if n, ok := whole(a); ok && !isNumber(b) {
			return r.repeat(b, n)
		}
	}
	return numeric(op, a, b)
}

func isNumber(v value) bool {
	_, ok := number(v)
	return ok
}

// repeat is a string or list n times.
func (r *run) repeat(v value, n int) (value, error) {
	n = max(n, 0)
	switch v := v.(type) {
	case Text:
		if err := r.make(product(v.size(), n)); err != nil {
			return nil, err
		}
		var w textWriter
		for range min(n, n*len(v.s)) {
			w.add(v)
		}
		return w.text(), nil
	case *List:
		if !v.indexed() {
			break
		}
		if err := r.makeItems(product(len(v.items), n)); err != nil {
			return nil, err
		}
		if len(v.items) == 0 {
			n = 0
		}
		return &List{items: slices.Repeat(v.items, n), kind: v.kind}, nil
	}
	return nil, fmt.Errorf("%s cannot be multiplied", typeName(v))
}

// product is a·b, or more than any bound.
func product(a, b int) int {
	if hi, lo := bits.Mul64(uint64(a), uint64(b)); hi == 0 && lo < math.MaxInt32 {
		return int(lo)
	}
	return math.MaxInt32
}

var (
	errZero     = errors.New("division by zero")
	errOverflow = errors.New("a number has more than 64 bits")
)

func numeric(op string, a, b value) (value, error) {
	x, ok := number(a)
	y, also := number(b)
	if !ok || !also {
		return nil, fmt.Errorf("%s and %s have no %s", typeName(a), typeName(b), op)
	}
	i, ok := whole(a)
	j, also := whole(b)
	if ok && also && op != "/" && (op != "**" || j >= 0) {
		return integers(op, i, j)
	}
	return floats(op, x, y)
}

func floats(op string, x, y float64) (value, error) {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		return nil, errZero
	}
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		return x / y, nil
	case "//":
		return math.Floor(x / y), nil
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, nil
	}
	p := math.Pow(x, y)
	if math.IsNaN(p) || math.IsInf(p, 0) {
		return nil, errors.New("a power is out of range")
	}
	return p, nil
}

func integers(op string, i, j int) (value, error) {
	switch op {
	case "+":
		sum := i + j
		return sum, overflow((sum > i) == (j > 0))
	case "-":
		difference := i - j
		return difference, overflow((difference < i) == (j > 0))
	case "*":
		return times(i, j)
	case "**":
		return power(i, j)
	}
	if j == 0 {
		return nil, errZero
	}
	if i == math.MinInt && j == -1 {
		return nil, errOverflow
	}
	quotient, rest := i/j, i%j
	if rest != 0 && (rest < 0) != (j < 0) {
		quotient, rest = quotient-1, rest+j
	}
	if op == "//" {
		return quotient, nil
	}
	return rest, nil
}

func overflow(fine bool) error {
	if !fine {
		return errOverflow
	}
	return nil
}

func times(i, j int) (int, error) {
	p := i * j
	fits := i == 0 || p/i == j && (i != -1 || j != math.MinInt)
	return p, overflow(fits)
}

func power(i, j int) (value, error) {
	out := 1
	for range min(j, 64) {
		var err error
		if out, err = times(out, i); err != nil {
			return nil, err
		}
	}
	switch {
	case j <= 64 || i == 0 || i == 1:
		return out, nil
	case i == -1:
		return 1 - j%2*2, nil
	}
	return nil, errOverflow
}

func (e sign) eval(r *run, s *scope) (value, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(undefined); ok {
		return nil, u.error()
	}
	n, ok := whole(v)
	f, also := v.(float64)
	switch {
	case !ok && !also:
		return nil, fmt.Errorf("%s has no sign", typeName(v))
	case !e.minus:
		return v, nil
	case also:
		return -f, nil
	case n == math.MinInt:
		return nil, errOverflow
	}
	return -n, nil
}
