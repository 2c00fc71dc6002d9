package bus

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Outcome is what becomes of a message after its handler.
type Outcome uint8

// The outcomes.
const (
	// Done: handled, or not needed any more.
	Done Outcome = iota
	// Retried: delivered again, perhaps to a sibling.
	Retried
	// Poisoned: never delivered again.
	Poisoned
	// Late: dropped because its deadline has passed.
	Late
)

// String is the outcome as a metric's label.
func (o Outcome) String() string {
	return [...]string{"done", "retried", "poisoned", "late"}[o]
}

type poisonError struct {
	error
	reason Reason
}

func (p poisonError) Unwrap() error { return p.error }

// Poison marks an error that every further attempt would meet again: a body
// that cannot be read, a message for another model.
func Poison(err error) error { return GiveUp(Unreadable, err) }

// GiveUp marks an error after which nobody is to try the message again.
func GiveUp(why Reason, err error) error { return poisonError{err, why} }

type retryError struct {
	error
	after time.Duration
	// elsewhere says that another replica is to try.
	elsewhere bool
}

func (r retryError) Unwrap() error { return r.error }

// RetryAfter marks an error that another attempt may not meet.
func RetryAfter(after time.Duration, err error) error { return retryError{error: err, after: after} }

// Elsewhere is RetryAfter of who knows that others can do what it cannot: Work gives the
// delivery back.
func Elsewhere(after time.Duration, err error) error { return retryError{err, after, true} }

// IsElsewhere reports whether an error is Elsewhere's.
func IsElsewhere(err error) bool {
	var retry retryError
	return errors.As(err, &retry) && retry.elsewhere
}

const (
	// maxDeliveries bounds attempts at a message whose handler fails with an
	// error of unknown class: it may be what kills its handlers.
	maxDeliveries = 8
	// retryDelay lets a passing cause pass; it doubles with each delivery.
	retryDelay    = 50 * time.Millisecond
	maxRetryDelay = 2 * time.Second
)

// classify is the one place that decides what a handler's error means.
// delivered counts from 1.
func classify(err error, delivered int) (o Outcome, after time.Duration) {
	if err == nil {
		return Done, 0
	}
	return classifyFailure(err, delivered)
}

// classifyFailure is on its own, so that a message without an error takes no memory for the errors
// that are looked for here.
func classifyFailure(err error, delivered int) (o Outcome, after time.Duration) {
	var poison poisonError
	var retry retryError
	switch {
	case errors.As(err, &poison), unpublishable(err), IsPanic(err):
		// No attempt, here or elsewhere, can succeed.
		return Poisoned, 0
	case errors.As(err, &retry):
		// The handler knows when it makes sense again, so it is not bounded. What
		// lies beneath does not count: a timeout of the handler's own is an error
		// to try again after, and not the message's deadline.
		return Retried, retry.after
	case errors.Is(err, context.DeadlineExceeded):
		// Nobody waits for the result; its sender has given up or issued the
		// work again, so another attempt only takes room from live work.
		return Late, 0
	case errors.Is(err, context.Canceled):
		// This replica is stopping: a sibling can take it at once.
		return Retried, 0
	case delivered >= maxDeliveries:
		// Every attempt failed without a known reason.
		return Poisoned, 0
	default:
		// Unknown: most likely a neighbour is away for a moment.
		return Retried, min(retryDelay<<min(delivered, 10), maxRetryDelay)
	}
}

// unpublishable reports whether a server would take no message like this, whenever.
func unpublishable(err error) bool {
	var subject *SubjectError
	var large *TooLargeError
	return errors.As(err, &subject) || errors.As(err, &large)
}

// levelOf keeps what is expected while neighbours come and go out of the log.
func levelOf(o Outcome) slog.Level {
	if o == Poisoned {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// IsGivenUp reports whether an error is GiveUp's or Poison's.
func IsGivenUp(err error) bool {
	var poison poisonError
	return errors.As(err, &poison)
}

// reasonOf says why a poisoned message is given up, by its handler's error.
func reasonOf(err error) Reason {
	var poison poisonError
	switch {
	case errors.As(err, &poison):
		return poison.reason
	case IsPanic(err):
		return Panicked
	case unpublishable(err):
		return Refused
	}
	return Deliveries
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
