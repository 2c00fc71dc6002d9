package device

import (
	"errors"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/forward"
)

var (
	// ErrCancelled is the end of a load that nobody wants any more.
	ErrCancelled = errors.New("load of an expert was cancelled")
	// ErrUnknown says that the model has no such expert.
	ErrUnknown = errors.New("the model has no such expert")
	// ErrOutOfMemory is a Loader's error: the device has less memory than its
	// budget says.
	ErrOutOfMemory = errors.New("the device is out of memory; lower its budget")
)

// RefusedError says that an expert does not fit.
type RefusedError struct {
	ID forward.ExpertID
	// Need is the expert's bytes, Room those that are free or held by nobody.
	Need, Room, Budget int64
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%v needs %d bytes, and of the memory budget of %d bytes there is room for %d; raise the budget or add a host",
		e.ID, e.Need, e.Budget, e.Room)
}

// FailedError says why an expert could not be loaded.
type FailedError struct {
	ID  forward.ExpertID
	Err error
}

func (e *FailedError) Error() string { return fmt.Sprintf("%v is not loaded: %v", e.ID, e.Err) }

func (e *FailedError) Unwrap() error { return e.Err }

// HeldError says that an expert cannot be evicted.
type HeldError struct {
	ID forward.ExpertID
	// Tickets is how many hold it; 0 if only computations do.
	Tickets int
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%v is in use, %d tickets hold it", e.ID, e.Tickets)
}
