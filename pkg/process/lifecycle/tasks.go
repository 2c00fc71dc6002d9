package lifecycle

import (
	"context"
	"errors"
	"sync"
)

// Tasks are the goroutines of a service's Run. They share a context, which ends when the one
// returns that Run is given, when one fails that the service Needs, when a Last one returns, or
// as Serving and Leaving say. Run waits for all of them.
type Tasks struct {
	ctx context.Context
	end context.CancelCauseFunc
	all sync.WaitGroup
}

// Serving are tasks that end with ctx.
func Serving(ctx context.Context) *Tasks {
	t := &Tasks{}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t
}

// Leaving are tasks that go on when ctx ends, while the service hands over what it has: they
// end when handOver returns, which has their context. Where lost is closed there is nothing to
// hand over any more, and they end at once; nil never is.
func Leaving(ctx context.Context, lost <-chan struct{}, handOver func(context.Context)) *Tasks {
	t := Serving(context.WithoutCancel(ctx))
	t.Last(func(serving context.Context) {
		select {
		case <-ctx.Done():
			handOver(serving)
		case <-lost:
		case <-serving.Done():
		}
	})
	return t
}

// Within is a context that ends with both ctx and the tasks.
func (t *Tasks) Within(ctx context.Context) context.Context {
	within, cancel := context.WithCancel(ctx)
	context.AfterFunc(t.ctx, cancel)
	return within
}

// End ends all tasks. Where why is an error that is no end of a context, Run returns it.
func (t *Tasks) End(why error) { t.end(why) }

// Go begins a task, which returns when its context ends.
func (t *Tasks) Go(task func(context.Context)) {
	t.all.Go(func() { task(t.ctx) })
}

// Last begins a task with which the others end.
func (t *Tasks) Last(task func(context.Context)) {
	t.Go(func(ctx context.Context) {
		defer t.end(nil)
		task(ctx)
	})
}

// Needs begins a task without which the service cannot go on: when it fails all tasks end,
// and Run returns its error.
func (t *Tasks) Needs(task func(context.Context) error) {
	t.Go(func(ctx context.Context) {
		if err := task(ctx); err != nil {
			t.end(err)
		}
	})
}

// Run does the last task itself, ends the others and waits for them. It returns that one's
// error, and the one that has ended all.
func (t *Tasks) Run(last func(context.Context) error) error {
	defer t.all.Wait()
	defer t.end(nil) // before the wait
	return errors.Join(last(t.ctx), t.why())
}

// why is the error that has ended the tasks; nil: they go on, or were ended otherwise.
func (t *Tasks) why() error {
	if why := context.Cause(t.ctx); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}
