package admission

import (
	"errors"
	"math/rand/v2"
	"time"

	policy "github.com/switchyard/switchyard/pkg/policy/admission"
	"github.com/switchyard/switchyard/pkg/request/edge"
	"github.com/switchyard/switchyard/schemas"
)

// OverloadPause is how long an overloaded producer should wait.
const OverloadPause = 2 * time.Second

// RetryLater gives an overload the pause after which to try again.
func RetryLater(err error) error {
	var e *edge.Error
	if errors.As(err, &e) && e.Code == edge.Overloaded && e.RetryAfter == 0 {
		e.RetryAfter = OverloadPause
	}
	return err
}

// overloaded is a refusal that says in how many seconds to come again.
func overloaded(seconds float64, format string, args ...any) error {
	refused := edge.Errorf(edge.Overloaded, format, args...)
	refused.RetryAfter = After(seconds)
	return refused
}

// Jitter keeps producers apart that are told the same; it is less than promises are kept for.
const (
	jitterShare = 0.1
	mostJitter  = policy.Grace / 2.0
)

// After is what a producer is told of a time in seconds.
func After(seconds float64) time.Duration {
	seconds += rand.Float64() * min(jitterShare*seconds, mostJitter)
	return time.Duration(seconds * float64(time.Second))
}

// BadRequest is an error of what a producer sent.
func BadRequest(err error) error {
	if err == nil {
		return nil
	}
	return edge.Errorf(edge.BadRequest, "%v", err)
}

// UsableID is a request's id as a refusal may repeat it.
func UsableID(id string) string {
	if schemas.CheckRequestID(id) != nil {
		return ""
	}
	return id
}
