package jinja

import (
	"errors"
	"math"
	"math/bits"
	"slices"
)

func (e binary) eval(r *run, s *scope) value {
	a := e.a.eval(r, s)
	b := e.b.eval(r, s)
	r.step(1)
	if e.op == "~" {
		return r.concat(a, b)
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(undefined); ok {
			panic(u.failure())
		}
	}
	return r.binary(e.op, a, b)
}

func (r *run) concat(a, b value) value {
	return r.join(r.str(a), r.str(b))
}

func (r *run) join(a, b Text) value {
	r.make(a.size() + b.size())
	return concat(a, b)
}

func (r *run) binary(op string, a, b value) value {
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
			r.makeItems(len(x.items) + len(y.items))
			return &List{items: slices.Concat(x.items, y.items), kind: x.kind}
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

func (r *run) repeat(v value, n int) value {
	n = max(n, 0)
	switch v := v.(type) {
	case Text:
		r.make(product(v.size(), n))
		var w textWriter
		for range min(n, n*len(v.s)) {
			w.add(v)
		}
		return w.text()
	case *List:
		if !v.indexed() {
			break
		}
		r.makeItems(product(len(v.items), n))
		if len(v.items) == 0 {
			n = 0
		}
		return &List{items: slices.Repeat(v.items, n), kind: v.kind}
	}
	panic(failf("%s cannot be multiplied", typeName(v)))
}

// product returns a·b, or more than any bound.
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

func numeric(op string, a, b value) value {
	x, ok := number(a)
	y, also := number(b)
	if !ok || !also {
		panic(failf("%s and %s have no %s", typeName(a), typeName(b), op))
	}
	i, ok := whole(a)
	j, also := whole(b)
	if ok && also && op != "/" && (op != "**" || j >= 0) {
		return integers(op, i, j)
	}
	return floats(op, x, y)
}

func floats(op string, x, y float64) value {
	if y == 0 && (op == "/" || op == "//" || op == "%") {
		panic(failure{errZero})
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	p := math.Pow(x, y)
	if math.IsNaN(p) || math.IsInf(p, 0) {
		panic(failf("a power is out of range"))
	}
	return p
}

func integers(op string, i, j int) value {
	switch op {
	case "+":
		sum := i + j
		bounded64((sum > i) == (j > 0))
		return sum
	case "-":
		difference := i - j
		bounded64((difference < i) == (j > 0))
		return difference
	case "*":
		return times(i, j)
	case "**":
		return power(i, j)
	}
	if j == 0 {
		panic(failure{errZero})
	}
	if i == math.MinInt && j == -1 {
		panic(failure{errOverflow})
	}
	quotient, rest := i/j, i%j
	if rest != 0 && (rest < 0) != (j < 0) {
		quotient, rest = quotient-1, rest+j
	}
	if op == "//" {
		return quotient
	}
	return rest
}

// bounded64 wants a result to be right.
func bounded64(fine bool) {
	if !fine {
		panic(failure{errOverflow})
	}
}

func times(i, j int) int {
	p := i * j
	bounded64(i == 0 || p/i == j && (i != -1 || j != math.MinInt))
	return p
}

func power(i, j int) value {
	out := 1
	for range min(j, 64) {
		out = times(out, i)
	}
	switch {
	case j <= 64 || i == 0 || i == 1:
		return out
	case i == -1:
		return 1 - j%2*2
	}
	panic(failure{errOverflow})
}

func (e sign) eval(r *run, s *scope) value {
	v := e.of.eval(r, s)
	if u, ok := v.(undefined); ok {
		panic(u.failure())
	}
	n, ok := whole(v)
	f, also := v.(float64)
	switch {
	case !ok && !also:
		panic(failf("%s has no sign", typeName(v)))
	case !e.minus:
		return v
	case also:
		return -f
	case n == math.MinInt:
		panic(failure{errOverflow})
	}
	return -n
}
