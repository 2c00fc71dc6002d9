package jsonschema

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/grammar/bytewise"
)

// maxShown bounds what a refusal shows of a schema.
const maxShown = 200

// Refusal says what of a schema cannot be kept.
type Refusal struct {
	Pointer string // JSON pointer of the subschema; empty: the whole
	Keyword string
	Why     string
}

// Error names the place, the keyword, and what to do.
func (r *Refusal) Error() string {
	at := r.Pointer
	if at == "" {
		at = "the schema"
	}
	if len(at) > maxShown {
		at = at[:maxShown] + "…"
	}
	if r.Keyword == "" {
		return fmt.Sprintf("%s: %s", at, r.Why)
	}
	return fmt.Sprintf("%s: %s: %s", at, r.Keyword, r.Why)
}

// refuse makes a refusal of a keyword at a schema.
func refuse(v *value, keyword, format string, args ...any) error {
	return &Refusal{Pointer: v.pointer, Keyword: keyword, Why: fmt.Sprintf(format, args...)}
}

// because says why a keyword's automaton cannot be made.
func because(v *value, keyword string, err error) error {
	var large *bytewise.TooLargeError
	var refused *Refusal
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case errors.As(err, &large):
		return refuse(v, keyword, "the grammar is too large here: %v; ask for less, such as a smaller maxLength or maxItems, or a simpler pattern", err)
	case errors.Is(err, bytewise.ErrEmpty):
		return err // this way is none
	}
	return refuse(v, keyword, "%v", err)
}
