package compute

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/transport/wire"
)

// UnitError says that a host has no weights for the rows of a function, which another host
// may have.
type UnitError struct {
	Function, Reason string
}

// Error names the function and what is missing.
func (e *UnitError) Error() string { return fmt.Sprintf("function %s: %s", e.Function, e.Reason) }

// Permanent says whether an error is the dispatch's own, so that no host can compute it.
func Permanent(err error) bool {
	var mismatch *wire.IdentityError
	return errors.As(err, &mismatch) || errors.Is(err, wire.ErrMalformed)
}
