package queue

import (
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/pkg/request/tokenlog"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Why a sequence is not admitted. settler says what each means for it.

// errElsewhere says that a sequence is too large for this replica and is given
// back for a sibling.
var errElsewhere = errors.New("a larger replica is to take it")

// errTheirs says that a sibling has a sequence: the server was away, or hung.
var errTheirs = errors.New("another replica has the sequence")

// errOurs says that the work came again while it is being done here: a claim
// was not renewed in time, as when the server was away.
var errOurs = errors.New("this replica has the sequence")

// errLapsed says that work which waited here was not renewed in time, so that
// somebody else has it: claiming it would take it from him.
var errLapsed = errors.New("its delivery has lapsed")

// internal is an error of ours, as producers see it.
const internal = string(edge.Internal)

// refusedError is why a sequence can never be worked on.
type refusedError struct {
	seq  *pb.Sequence
	code string
	error
}

// Unwrap is why.
func (r *refusedError) Unwrap() error { return r.error }

// reason is why the sequence is given up.
func (r *refusedError) reason() bus.Reason {
	switch {
	case bus.IsPanic(r.error):
		return bus.Panicked
	case errors.Is(r.error, tokenlog.ErrCrashed):
		return bus.Crashed
	case errors.Is(r.error, tokenlog.ErrFruitless):
		return bus.Deliveries
	}
	return bus.Refused
}

// errUnreadable says that a message is no sequence.
var errUnreadable = errors.New("unreadable sequence")

// foreignError says that a sequence is of another kind.
type foreignError struct {
	seq       *pb.Sequence
	delivered int
	error
}

// Unwrap is how the sequence differs.
func (f *foreignError) Unwrap() error { return f.error }

const (
	// elsewherePause is the pause before a sequence that was given back comes
	// again, perhaps to the same replica: it grows with each time.
	elsewherePause    = 50 * time.Millisecond
	maxElsewherePause = time.Second
)

// toSibling gives a sequence back.
func toSibling(delivered int) error {
	return bus.RetryAfter(min(elsewherePause*time.Duration(delivered), maxElsewherePause), errElsewhere)
}
