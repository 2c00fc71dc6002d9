package attention

import (
	"context"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/process/notify"
)

// patient says whether rows that are due may wait on.
func (r *remote) patient(w *wait) bool {
	return w.excuse() || r.waking.in(r.layer, time.Now()) && w.extend() || w.postpone(r.latency.spend)
}

// limits are those of the layer that is away.
func (r *remote) limits() limits { return r.latency.limits(r.layer, r.rows()) }

// rows is how many are away.
func (r *remote) rows() int { return len(r.x) / r.d }

// again issues what is late once more, and sets the time of the next one.
func (r *remote) again(ctx context.Context, w *wait) error {
	if w.blames() {
		w.late++
	}
	if w.late > maxAttempts {
		return fmt.Errorf("no answer from layer %d's experts after %d attempts in %v%s", r.layer, maxAttempts, time.Since(w.began).Round(time.Second), r.declining())
	}
	if !w.declined {
		r.suspect(r.collector, r.router)
	}
	err := r.reissue(ctx, w.attempt+1)
	switch {
	case err == nil:
		w.attempt++
	case !passes(ctx, err):
		return err
	case w.blames():
		w.late-- // nobody can be blamed for it
	}
	w.next(r.limits())
	return nil
}

// declining is what was said last by who left rows to others.
func (r *remote) declining() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decliner == "" {
		return ""
	}
	return fmt.Sprintf("; one that had the rows said: %.*s", maxReason, r.decliner)
}

func (r *remote) reissue(ctx context.Context, attempt uint32) error {
	r.mu.Lock()
	late := make([]rowsPart, 0, len(r.parts))
	for _, p := range r.parts {
		if !p.arrived {
			late = append(late, p)
		}
	}
	r.issued = append(r.issued[:attempt], time.Now()) // one that could not be sent has the same number
	r.mu.Unlock()
	for _, p := range late {
		if err := r.send(ctx, p, attempt); err != nil {
			return err
		}
	}
	r.stats.reissued(len(late))
	return nil
}

// hurry lets all workers issue again what may be lost: somebody who may have it
// has fallen silent, or was replaced.
func (x *exchange) hurry() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, r := range x.waiters {
		notify.Send(r.hurried)
	}
}
