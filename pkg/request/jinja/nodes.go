package jinja

// expression is a part of a template that has a value.
type expression interface {
	eval(r *run, s *scope) value
}

// statement is a part of a template that writes text or sets variables.
type statement interface {
	exec(r *run, s *scope, w *textWriter)
}

// target is what a value can be assigned to.
type target interface {
	assign(r *run, s *scope, v value)
}

type (
	constant struct{ value value }
	variable string
	captured struct{} // the body of a set or filter tag
	listOf   struct {
		kind  flavour
		items []expression
	}
	dictOf      struct{ keys, values []expression }
	attributeOf struct {
		of   expression
		name string
	}
	itemOf  struct{ of, key expression }
	sliceOf struct{ of, start, stop, step expression } // parts may be nil
	call    struct {
		of   expression
		args arguments
	}
	filtered struct {
		of   expression
		name string
		args arguments
	}
	tested struct {
		of   expression
		name string
		args arguments
	}
	condition  struct{ test, then, otherwise expression } // otherwise may be nil
	either     struct{ a, b expression }
	both       struct{ a, b expression }
	negation   struct{ of expression }
	comparison struct {
		first expression
		ops   []string
		rest  []expression
	}
	binary struct {
		op   string
		a, b expression
	}
	sign struct {
		minus bool
		of    expression
	}
)

// arguments are what a call gives: first those without names.
type arguments struct {
	values []expression
	names  []string
	named  []expression
}

// Statements. line is where the tag begins.
type (
	write  struct{ text Text }
	output struct {
		line   int
		values []expression
	}
	forLoop struct {
		line        int
		target      target
		over, where expression // where may be nil
		recursive   bool
		body, empty []statement
	}
	ifElse struct {
		line      int
		tests     []expression
		bodies    [][]statement
		otherwise []statement
	}
	set struct {
		line   int
		target target
		value  expression
	}
	setBlock struct {
		line   int
		target target
		value  expression // filters over captured; nil: none
		body   []statement
	}
	filterBlock struct {
		line  int
		value expression
		body  []statement
	}
	with struct {
		line    int
		targets []target
		values  []expression
		body    []statement
	}
	callBlock struct {
		line   int
		call   call
		caller *macro
	}
	jump struct{ leaves bool } // break, or else continue
)

// Targets, beside variable.
type (
	namespaceTarget struct{ of, name string }
	tupleTarget     []target
)

// macro is a statement that defines a function of template text.
type macro struct {
	line   int
	name   string
	params []parameter
	body   []statement
}

// parameter is one of a macro's; preset is nil where it has no default.
type parameter struct {
	name   string
	preset expression
}
