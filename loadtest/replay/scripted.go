package replay

import (
	"fmt"

	"github.com/switchyard/switchyard/pkg/policy/batching"
)

// Scripted is a step of a run, to be made again.
type Scripted struct {
	// At is when it began, in seconds since the run did.
	At    float64
	Parts []Rows
}

// Rows are those of one request in a step: so many, from a position on.
type Rows struct {
	Request     string
	First, Rows int
}

// ScriptError says which step cannot be made, and because of which request.
type ScriptError struct {
	Step    int // from 1
	Steps   int
	Request string
	Why     string
}

// Error names step and request.
func (e *ScriptError) Error() string {
	return fmt.Sprintf("step %d of %d cannot be made again: request %s %s", e.Step, e.Steps, e.Request, e.Why)
}

// Script makes the steps of another run: each when all its rows are there, and the one
// before has been made. It has no clock: now is in seconds since the run began, and never
// goes back.
type Script struct {
	Steps []Scripted
	// Paced says that no step is made sooner than it was.
	Paced bool
	// Patience is how many seconds rows may be missing, from when the step before was made
	// or this one began in the other run, whichever is later.
	Patience float64

	next int
	made float64 // when the newest one was
}

// Ended reports whether all steps were made.
func (s *Script) Ended() bool { return s.next >= len(s.Steps) }

// Next takes the next step's rows of ready; none, if it is not to be made yet. It is to be
// asked again when something has changed, or after so many seconds, if it says any.
func (s *Script) Next(now float64, ready []batching.Item, out []batching.Take) (takes []batching.Take, again float64, err error) {
	out = out[:0]
	if s.Ended() {
		return out, 0, nil
	}
	step := &s.Steps[s.next]
	if s.Paced && now < step.At {
		return out, step.At - now, nil
	}
	for _, r := range step.Parts {
		at := find(ready, r.Request)
		if at < 0 {
			if now-max(s.made, step.At) > s.Patience {
				return out[:0], 0, s.Failed(r.Request, fmt.Sprintf("has had no rows for %v s", s.Patience))
			}
			return out[:0], 0, nil
		}
		if it := &ready[at]; it.Position != r.First || max(1, it.Prefill) < r.Rows {
			return out[:0], 0, s.Failed(r.Request, fmt.Sprintf("has %d rows from position %d on; the step had %d from %d on", max(1, it.Prefill), it.Position, r.Rows, r.First))
		}
		out = append(out, batching.Take{Index: at, Rows: r.Rows})
	}
	s.next, s.made = s.next+1, now
	return out, 0, nil
}

// Failed is the error of the step that is to be made next, if it needs a request.
func (s *Script) Failed(request, why string) *ScriptError {
	return &ScriptError{Step: min(s.next+1, len(s.Steps)), Steps: len(s.Steps), Request: request, Why: why}
}

func find(ready []batching.Item, request string) int {
	for i := range ready {
		if ready[i].Request == request {
			return i
		}
	}
	return -1
}
