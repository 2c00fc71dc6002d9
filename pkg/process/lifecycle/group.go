package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Group is services that live together; it is a Service itself. It starts them
// in order and runs them all; when its context ends, or when the first of them
// fails, Stop takes them down one after the other, so that a service drains
// while those that it needs still run.
type Group struct {
	name  string
	start []Service

	mu      sync.Mutex
	state   state
	current string // the service that was asked to start last
	members map[Service]*member
	retired map[Service]bool
	failed  chan error // the first error of any Run
	stopErr error
	stopped chan struct{}
}

// state of a Group; it only grows.
type state uint8

const (
	isNew state = iota
	isStarting
	isStarted
	isRunning
	isStopping
)

// member is a service that was asked to start.
type member struct {
	cancel context.CancelFunc // ends its Run; nil when it was never run
	done   chan struct{}      // closed when Run has returned
	err    error              // of Run; valid after done

	stopping sync.Once
	stopErr  error // of the stopping
}

// NewGroup returns a group that starts these services in this order and stops
// them in the reverse one: what others need comes first.
func NewGroup(name string, services ...Service) *Group {
	return &Group{
		name: name, start: services,
		members: map[Service]*member{}, retired: map[Service]bool{}, failed: make(chan error, len(services)), stopped: make(chan struct{}),
	}
}

// Name returns the group's name.
func (g *Group) Name() string { return g.name }

// Start starts the services in order, up to the first error.
func (g *Group) Start(ctx context.Context) error {
	if !g.advance(isNew, isStarting) {
		return fmt.Errorf("starting %s: it was started or stopped before", g.name)
	}
	for _, s := range g.start {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !g.enter(s) {
			return fmt.Errorf("starting %s: it was stopped meanwhile", g.name)
		}
		if err := s.Start(ctx); err != nil {
			return named(s, "starting", err)
		}
	}
	g.advance(isStarting, isStarted)
	return nil
}

// Run runs the services until ctx ends, one fails, or all are done. They are
// still running when it returns: Stop ends them in order.
func (g *Group) Run(ctx context.Context) error {
	if !g.launch(ctx) {
		return fmt.Errorf("running %s: it is not started, or stopped already", g.name)
	}
	done := make(chan struct{})
	go func() {
		for _, s := range g.start {
			<-g.member(s).done
		}
		close(done)
	}()
	select {
	case <-ctx.Done():
		return nil
	case err := <-g.failed:
		return err
	case <-done:
		return g.anyFailure()
	}
}

// launch runs every service in a goroutine of its own. Their contexts outlive
// ctx: each ends when it is that service's turn to stop.
func (g *Group) launch(ctx context.Context) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != isStarted {
		return false
	}
	g.state = isRunning
	for _, s := range g.start {
		m := g.members[s]
		var running context.Context
		running, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
		go func() {
			defer close(m.done)
			if m.err = named(s, "running", s.Run(running)); m.err != nil {
				g.failed <- m.err // has room for all
			}
		}()
	}
	return true
}

// anyFailure returns an error that came at the same moment as the end of the last Run.
func (g *Group) anyFailure() error {
	select {
	case err := <-g.failed:
		return err
	default:
		return nil
	}
}

// Stop ends the services in the reverse order of starting, joins their errors, and returns the
// same when called again. Those that never started are stopped, too: they may have had
// something from when they were made. A Run's error that Run returned is not repeated.
func (g *Group) Stop(ctx context.Context) error {
	if !g.beginStop() {
		<-g.stopped
		return g.stopErr
	}
	defer close(g.stopped)
	var errs []error
	for _, s := range slices.Backward(g.start) {
		errs = append(errs, g.stopOne(ctx, s))
	}
	g.stopErr = errors.Join(append(errs, g.laterFailures()...)...)
	return g.stopErr
}

// Retire ends one service of a running group as Stop does, and lets the others go on. The
// group is ready and alive without it from then on.
func (g *Group) Retire(ctx context.Context, s Service) error {
	g.mu.Lock()
	running := g.state == isRunning && g.members[s] != nil
	if running {
		g.retired[s] = true
	}
	g.mu.Unlock()
	if !running {
		return fmt.Errorf("retiring %s: %s does not run it", s.Name(), g.name)
	}
	return g.stopOne(ctx, s)
}

// Running reports whether the services run, and are not being stopped.
func (g *Group) Running() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state == isRunning
}

// active returns the services that were not retired.
func (g *Group) active() (all []Service) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.start {
		if !g.retired[s] {
			all = append(all, s)
		}
	}
	return all
}

// stopOne stops a service, once: who comes second waits for the first one.
func (g *Group) stopOne(ctx context.Context, s Service) error {
	m := g.member(s)
	if m == nil {
		return g.end(ctx, s, nil)
	}
	m.stopping.Do(func() { m.stopErr = g.end(ctx, s, m) })
	return m.stopErr
}

// end ends a service's Run, waits for it, and stops it.
func (g *Group) end(ctx context.Context, s Service, m *member) error {
	var late error
	if m != nil && m.cancel != nil {
		m.cancel()
		select {
		case <-m.done:
		case <-ctx.Done():
			late = fmt.Errorf("stopping %s: its Run did not return in the time given for draining", s.Name())
		}
	}
	return errors.Join(late, named(s, "stopping", s.Stop(ctx)))
}

// laterFailures returns the errors of Runs that no one has seen yet.
func (g *Group) laterFailures() (errs []error) {
	for err := g.anyFailure(); err != nil; err = g.anyFailure() {
		errs = append(errs, err)
	}
	return errs
}

func (g *Group) advance(from, to state) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != from {
		return false
	}
	g.state = to
	return true
}

// enter notes that a service is about to start, unless the group is stopped.
func (g *Group) enter(s Service) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state != isStarting {
		return false
	}
	g.members[s] = &member{done: make(chan struct{})}
	g.current = s.Name()
	return true
}

func (g *Group) beginStop() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.state == isStopping {
		return false
	}
	g.state = isStopping
	return true
}

func (g *Group) member(s Service) *member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.members[s]
}

// errStarting and errStopping are why a group as a whole is not ready.
var (
	errStarting = errors.New("starting")
	errStopping = errors.New("stopping")
)

// Ready returns nil when the group runs and every service in it that can tell
// is ready; else everything that is missing, a line each.
func (g *Group) Ready() error {
	g.mu.Lock()
	state, current := g.state, g.current
	g.mu.Unlock()
	switch {
	case state == isStopping:
		return fmt.Errorf("%s: %w", g.name, errStopping)
	case state == isStarting:
		return fmt.Errorf("%s: %w %s", g.name, errStarting, current)
	case state != isRunning:
		return fmt.Errorf("%s: %w", g.name, errStarting)
	}
	var errs []error
	for _, s := range g.active() {
		if r, ok := s.(Readier); ok {
			errs = append(errs, prefix(s, r.Ready()))
		}
	}
	return errors.Join(errs...)
}

// Live returns nil unless a service has failed or says that it is beyond help.
func (g *Group) Live() error {
	var errs []error
	for _, s := range g.active() {
		errs = append(errs, g.runError(s))
		if l, ok := s.(Liver); ok {
			errs = append(errs, prefix(s, l.Live()))
		}
	}
	return errors.Join(errs...)
}

// runError returns the error that ended a service's Run, if one did.
func (g *Group) runError(s Service) error {
	m := g.member(s)
	if m == nil {
		return nil
	}
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

func prefix(s Service, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.Name(), err)
}

// Tasks are the goroutines of a service's Run. They share a context, which ends when the one
// returns that Run is given, when one fails that the service Needs, when a Last one returns, or
// as Serving and Leaving say. Run waits for all of them.
type Tasks struct {
	ctx context.Context
	end context.CancelCauseFunc
	all sync.WaitGroup
}

// Serving returns tasks that end with ctx.
func Serving(ctx context.Context) *Tasks {
	t := &Tasks{}
	t.ctx, t.end = context.WithCancelCause(ctx)
	return t
}

// Leaving returns tasks that go on when ctx ends, while the service hands over what it has: they
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

// Within returns a context that ends with both ctx and the tasks.
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

// why returns the error that has ended the tasks; nil: they go on, or were ended otherwise.
func (t *Tasks) why() error {
	if why := context.Cause(t.ctx); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}
