package lifecycle

import (
	"errors"
	"fmt"
)

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

// runError is the error that ended a service's Run, if one did.
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
