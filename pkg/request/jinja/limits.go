package jinja

import (
	"errors"
	"fmt"
)

// Bounds of a template and of one run of it.
const (
	// maxSource is in bytes; the largest published templates have some 20 KB.
	maxSource = 256 << 10
	// maxNesting bounds how deep tags and expressions stand within each other.
	maxNesting = 200
	// maxTerms bounds the operators, filters, tests, attributes, subscripts and calls of a
	// tag: each is a call within the others' when the tag runs, in each macro once more,
	// and a stack that grows too deep ends the process.
	maxTerms = 1000
	// maxCalls bounds how deep macros and recursive loops call each other.
	maxCalls = 100
	// maxDepth bounds how deep values are nested: a namespace may hold itself.
	maxDepth = 100
	// maxValues bounds those of a JSON text: each takes much more memory than its text.
	maxValues = 1 << 17
	// maxVariables bounds those of one tag's body, or of the template outside of tags.
	maxVariables = 256
	// maxParameters bounds those of a macro, and the arguments with names of a call.
	maxParameters = 200
	// maxRange is the bound that Jinja's sandbox sets on range().
	maxRange = 100_000

	// A run may take maxSteps, each of which is an operation or a few bytes, and
	// make maxMade bytes of strings and lists, with more for each byte of input.
	maxSteps, stepsPerByte = 2_000_000, 8
	maxMade, madePerByte   = 16 << 20, 16
	bytesPerStep           = 16
	// scopeSteps is what a turn of a loop, or a call, takes beside what it does.
	scopeSteps = 4
)

var (
	errSteps     = errors.New("it takes too long: the template may loop without end")
	errMade      = errors.New("it makes too much text")
	errCalls     = fmt.Errorf("macros or loops call each other more than %d deep", maxCalls)
	errVariables = fmt.Errorf("more than %d variables are set in one place", maxVariables)
	errValues    = fmt.Errorf("it has more than %d values", maxValues)
	errDepth     = fmt.Errorf("a value is nested more than %d deep", maxDepth)
)

// budget is what is left of a run.
type budget struct{ steps, made, calls int }

func newBudget(input int) budget {
	return budget{steps: maxSteps + stepsPerByte*input, made: maxMade + madePerByte*input, calls: maxCalls}
}

func (b *budget) step(n int) {
	if b.steps -= n; b.steps < 0 {
		panic(failure{errSteps})
	}
}

// scan is for looking through n bytes.
func (b *budget) scan(n int) { b.step(1 + n/bytesPerStep) }

// make is for n bytes more in memory; it is asked before they are made.
func (b *budget) make(n int) {
	if n < 0 || n > b.made {
		panic(failure{errMade})
	}
	b.made -= n
	b.scan(n)
}

// itemBytes is what an item of a list counts.
const itemBytes = 16

// pathItems is what a part of an attribute's path counts, with the function that reads it.
const pathItems = 8

func (b *budget) makeItems(n int) {
	if n > maxMade {
		panic(failure{errMade})
	}
	b.make(itemBytes * n)
}

// failure is a panic that ends the reading or a run of a template, from however deep within
// it: Parse and Render return it as an error.
type failure struct{ error }

func failf(format string, a ...any) failure { return failure{fmt.Errorf(format, a...)} }

// caught is what a recover returned, if it is a failure; nil: there was no panic.
func caught(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case failure:
		return v.error
	}
	panic(value)
}

// Error says what is wrong with a template or where its run failed.
type Error struct {
	Name string // of the template
	Line int    // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("%s, line %d: %v", e.Name, e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Raised is the cause of an Error when the template itself refuses its input
// with raise_exception.
type Raised struct{ Message string }

func (r *Raised) Error() string { return r.Message }
