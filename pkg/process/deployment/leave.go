package deployment

import (
	"context"
	"errors"
)

// Leave ends what a replica does when a part of it has failed.
func Leave(leave context.CancelCauseFunc, err error) {
	if err != nil {
		leave(err)
	}
}

// WhyLeft is the error that Leave ended a context with; nil: it goes on, or was ended
// otherwise.
func WhyLeft(ctx context.Context) error {
	if why := context.Cause(ctx); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}
