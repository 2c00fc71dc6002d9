package planner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/control/planstore"
	"github.com/switchyard/switchyard/pkg/policy/plan"
)

// followed are the deployment's settings as far as this candidate knows. It
// follows them also while another one plans, so that it knows the last legal
// ones if what is there now is not.
type followed struct {
	changed signal // the key was written

	mu    sync.Mutex
	last  plan.Settings // the last legal ones; without a policy if there were none yet
	set   bool          // somebody has written the last legal ones
	fault string        // why those in the bucket are not legal; empty if they are
	// spoilt says that garbage lies where legal settings were.
	spoilt bool
}

// signal wakes all who wait for it.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

// wait is closed when the signal fires the next time.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

// followSettings keeps the settings up to date until ctx ends. changed is from
// before they were read the first time. A write is heard when it is sent, which
// may be before the server has stored it, so the settings are read again soon
// after each one, then ever less often.
func (p *Planner) followSettings(ctx context.Context, changed <-chan struct{}) {
	pauses := pause.Between(debounce, lookAgain)
	for again := retry; ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			pauses.Reset()
		case <-time.After(again):
		}
		changed, again = p.settings.changed.wait(), pauses.Next()
		if p.readSettings(ctx) != nil {
			again = min(again, retry)
		}
	}
}

// readSettings takes what the bucket holds, if it is legal. An error says that
// it could not be read.
func (p *Planner) readSettings(ctx context.Context) error {
	s, written, err := p.Plans.Settings(ctx)
	if err != nil && !errors.Is(err, planstore.ErrIllegalSettings) {
		return fmt.Errorf("reading the settings of plans: %w", err)
	}
	p.settings.mu.Lock()
	defer p.settings.mu.Unlock()
	if err != nil {
		p.refuse(err)
		return nil
	}
	p.settings.fault, p.settings.spoilt, p.settings.set = "", false, written
	if !written {
		s = p.defaults()
	}
	if s != p.settings.last {
		p.settings.last = s
		p.written.fire()
	}
	return nil
}

// defaults hold while nobody has written settings.
func (p *Planner) defaults() plan.Settings {
	return plan.DefaultSettings().With(plan.Settings{Grouping: p.Grouping})
}

// refuse keeps the last legal settings, the default ones if there were none,
// and tells once why; p.settings.mu is held.
func (p *Planner) refuse(err error) {
	if p.settings.last.Policy == "" {
		p.settings.last = p.defaults()
	}
	if p.settings.fault == err.Error() {
		return
	}
	p.settings.fault = err.Error()
	if p.settings.spoilt = p.settings.set && errors.Is(err, planstore.ErrGarbage); p.settings.spoilt {
		p.written.fire()
	}
	p.Caller.Add("plan_settings_refused_total", 1)
	p.Logger.Error("settings of plans refused; the last legal ones stay; mend them with `switchyard plan set`",
		"error", err, "policy", p.settings.last.Policy, "grouping", p.settings.last.Grouping, "replicas", p.settings.last.Replicas)
}

// mendSettings writes the last legal settings again where garbage lies: who may send prompts
// can have the server's acknowledgement stored there.
func (t *tenure) mendSettings(ctx context.Context) error {
	t.settings.mu.Lock()
	last, spoilt := t.settings.last, t.settings.spoilt
	t.settings.mu.Unlock()
	if !spoilt {
		return nil
	}
	if err := t.Plans.MendSettings(ctx, last); err != nil {
		return fmt.Errorf("writing the settings of plans again: %w", err)
	}
	return nil
}

func (p *Planner) wanted(ctx context.Context) (plan.Settings, error) {
	if s := p.lastSettings(); s.Policy != "" {
		return s, nil
	}
	if err := p.readSettings(ctx); err != nil {
		return plan.Settings{}, err
	}
	return p.lastSettings(), nil
}

func (p *Planner) lastSettings() plan.Settings {
	p.settings.mu.Lock()
	defer p.settings.mu.Unlock()
	return p.settings.last
}

// shared returns the settings as every planner knows them: without the grouping of this one's own, which counts while nobody
// has written any.
func (p *Planner) shared() plan.Settings {
	p.settings.mu.Lock()
	defer p.settings.mu.Unlock()
	if !p.settings.set {
		return plan.DefaultSettings()
	}
	return p.settings.last
}
