package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// trail notes what happens, in order.
type trail struct {
	mu  sync.Mutex
	all []string
}

func (l *trail) add(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, what)
}

// until notes when a task ends.
func (l *trail) until(what string) func(context.Context) {
	return func(ctx context.Context) {
		<-ctx.Done()
		l.add(what)
	}
}

var errTask = errors.New("task")

// Each case has a task that goes on until the others have ended.
func TestTasks(t *testing.T) {
	announce := func(ctx context.Context) error { <-ctx.Done(); return nil }
	closed := make(chan struct{})
	close(closed)
	for name, tc := range map[string]struct {
		begin func(ctx context.Context, l *trail) *Tasks
		last  func(context.Context) error
		stop  bool // ends Run's context
		want  error
		trail []string
	}{
		"ended": {func(ctx context.Context, _ *trail) *Tasks { return Serving(ctx) }, announce, true, nil, []string{"task"}},
		"unannounced": {func(ctx context.Context, _ *trail) *Tasks { return Serving(ctx) },
			func(context.Context) error { return errTask }, false, errTask, []string{"task"}},
		"fails": {func(ctx context.Context, _ *trail) *Tasks {
			tasks := Serving(ctx)
			tasks.Needs(func(context.Context) error { return errTask })
			return tasks
		}, announce, false, errTask, []string{"task"}},
		"succeeds": {func(ctx context.Context, _ *trail) *Tasks {
			tasks := Serving(ctx)
			tasks.Needs(func(context.Context) error { return nil })
			return tasks
		}, announce, true, nil, []string{"task"}},
		"last": {func(ctx context.Context, _ *trail) *Tasks {
			tasks := Serving(ctx)
			tasks.Last(func(context.Context) {})
			return tasks
		}, announce, false, nil, []string{"task"}},
		"told to end": {func(ctx context.Context, _ *trail) *Tasks {
			tasks := Serving(ctx)
			tasks.End(errTask)
			return tasks
		}, announce, false, errTask, []string{"task"}},
		"leaves": {func(ctx context.Context, l *trail) *Tasks {
			return Leaving(ctx, nil, func(context.Context) { l.add("hands over") })
		}, announce, true, nil, []string{"hands over", "task"}},
		"leaves unannounced": {func(ctx context.Context, l *trail) *Tasks {
			return Leaving(ctx, nil, func(context.Context) { l.add("hands over") })
		}, func(context.Context) error { return errTask }, false, errTask, []string{"task"}},
		"has nothing left": {func(ctx context.Context, l *trail) *Tasks {
			return Leaving(ctx, closed, func(context.Context) { l.add("hands over") })
		}, announce, false, nil, []string{"task"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				l := &trail{}
				tasks := tc.begin(ctx, l)
				tasks.Go(l.until("task"))
				within := tasks.Within(ctx)
				ended := make(chan error, 1)
				go func() { ended <- tasks.Run(tc.last) }()
				if synctest.Wait(); tc.stop {
					stop()
				}
				if err := <-ended; !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("ended with %v, want %v", err, tc.want)
				}
				if synctest.Wait(); !slices.Equal(l.all, tc.trail) || within.Err() == nil || tasks.ctx.Err() == nil {
					t.Errorf("%v, want %v; what is within ended with %v", l.all, tc.trail, within.Err())
				}
			})
		})
	}
}
