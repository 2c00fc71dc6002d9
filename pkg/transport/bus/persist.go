package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/pause"
)

// quietFor is how long something may fail before it is worth a line in the log:
// servers restart, and leaders change.
const quietFor = time.Second

// Persist does what a service cannot go on without: it tries until that works,
// ctx ends, the connection's patience does, or the error is one that waiting cannot mend. what says for people
// what is being done. Each attempt gets a context that ends after a while. A stream that
// others are to make (MissingError) is waited for a while.
func (c *Conn) Persist(ctx context.Context, what string, do func(context.Context) error) error {
	return c.persist(ctx, what, lastsWithout(c.makers), do)
}

// lastsWithout is lasts, and says so of a stream that is missing for so long, too.
func lastsWithout(makers time.Duration) func(error) bool {
	var since time.Time
	return func(err error) bool {
		var missing *MissingError
		if !errors.As(err, &missing) {
			since = time.Time{}
			return lasts(err)
		}
		if since.IsZero() {
			since = time.Now()
		}
		return time.Since(since) >= makers
	}
}

// persistAlways does it for what runs already, where somebody may change what
// keeps it from going on.
func (c *Conn) persistAlways(ctx context.Context, what string, do func(context.Context) error) error {
	return c.persist(ctx, what, func(error) bool { return c.nc.IsClosed() }, do)
}

func (c *Conn) persist(ctx context.Context, what string, lasts func(error) bool, do func(context.Context) error) error {
	t := c.trouble(what)
	within, begun, f := firstAttempt, time.Now(), c.futile()
	for pauses := pause.Between(firstWait, lastWait); ; {
		err := c.attempt(ctx, within, do)
		c.trials.asking.note(err, time.Now())
		switch {
		case err == nil:
			t.over()
			return nil
		case lasts(err):
			return fmt.Errorf("%s: %w", what, err)
		case f.tooLong():
			return f.wrap(what, err)
		}
		t.is(err)
		if end := c.pause(ctx, pauses.Next()); end != nil {
			return fmt.Errorf("%s: %w (%w)", what, end, err)
		}
		within = min(2*within, c.longestAttempt(begun))
	}
}

// futile is something that fails, attempt after attempt, while there is a server.
type futile struct {
	patience  time.Duration // how long that may go on; 0: for ever
	connected func() bool
	since     time.Time // zero: it does not, or waits for a server
}

func (c *Conn) futile() futile { return futile{patience: c.patience, connected: c.nc.IsConnected} }

// tooLong takes in a failure, and reports whether that is to be the last.
func (f *futile) tooLong() bool {
	switch {
	case !f.connected():
		f.since = time.Time{}
		return false
	case f.since.IsZero():
		f.since = time.Now()
	}
	return f.patience > 0 && time.Since(f.since) >= f.patience
}

func (f *futile) wrap(what string, err error) error {
	return fmt.Errorf("%s, in vain for %v: %w", what, f.patience, err)
}

// longestAttempt bounds an attempt at what was begun at a time. While a cluster
// elects leaders, requests are dropped, and whoever waits long for an answer
// misses the moment when there is one again.
func (c *Conn) longestAttempt(begun time.Time) time.Duration {
	if c.Clustered() && time.Since(begun) < SettlesWithin {
		return electionAttempt
	}
	return createWithin
}

// attempt tells a missing permission from silence, which is all that the
// caller of a request sees of it.
func (c *Conn) attempt(ctx context.Context, within time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	before := c.denied.Load()
	err := do(ctx)
	if denied := c.denied.Load(); err != nil && denied != before {
		return fmt.Errorf("%w (%w)", *denied, err)
	}
	return err
}

// pause waits between attempts, for the connection too when there is none. Its
// error is ctx's, or that the connection is closed for good.
func (c *Conn) pause(ctx context.Context, wait time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	back := c.Reconnection()
	passed := time.After(wait)
	if !c.nc.IsConnected() {
		passed = nil // nothing can work before
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closed:
		return c.Live()
	case <-back:
	case <-passed:
	}
	return nil
}

// Lasts reports whether waiting cannot mend an error: somebody has to change something first.
func Lasts(err error) bool { return lasts(err) }

// lasts reports whether waiting cannot mend an error: somebody has to change
// something first. The client library's ErrConnectionClosed is none: a flush has it
// whenever its connection breaks. Whether one is closed for good is seen in pause.
func lasts(err error) bool {
	var mismatch *MismatchError
	if errors.As(err, &mismatch) || unpublishable(err) {
		return true
	}
	for _, e := range []error{ErrClosed, ErrStopped, nats.ErrPermissionViolation} {
		if errors.Is(err, e) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && refusedForGood(api)
}

// refusedForGood reports whether a server's refusal does not depend on the moment.
func refusedForGood(e *jetstream.APIError) bool {
	switch e.ErrorCode {
	case codeNoStorage, codeNoMemory, codeNoResources, codeNoCluster:
		return true // its limits are too low, or there are too few of them
	case codeNoPeers, codeMaxConsumers:
		return false // servers come back, or say what room they have, and consumers go that nobody uses
	}
	return e.Code == 400 || e.Code == 401 || e.Code == 403
}

// trouble is something that may fail again and again: that is told once, and
// when it is over. The connection tells when there is no server; what follows from
// that is told only if it lasts when there is one again.
type trouble struct {
	log       *slog.Logger
	connected func() bool
	what      string
	since     time.Time // of the first failure; zero: it works, or waits for a server
	told      bool
}

func (c *Conn) trouble(what string) trouble {
	return trouble{log: c.log, connected: c.nc.IsConnected, what: what}
}

func (t *trouble) is(err error) {
	switch {
	case !t.told && !t.connected():
		t.since = time.Time{}
		return
	case t.since.IsZero():
		t.since = time.Now()
	}
	if !t.told && time.Since(t.since) >= quietFor {
		t.told = true
		t.log.Warn("still trying", "what", t.what, "error", WithCure(err))
	}
}

func (t *trouble) over() {
	if t.told {
		t.log.Info("works again", "what", t.what, "after", time.Since(t.since).Round(time.Millisecond))
	}
	t.since, t.told = time.Time{}, false
}
