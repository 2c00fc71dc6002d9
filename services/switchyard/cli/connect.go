package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// ConnectFlags are those of commands that are no service: a service waits for
// its server and for JetStream as long as it takes.
type ConnectFlags struct {
	ConnectTimeout time.Duration `default:"10s" group:"Connection, logs and configuration:" help:"How long NATS may be away, at the start or later, before this gives up and exits with 3; if only JetStream does not answer, with 1." placeholder:"TIME"`
}

// Validate refuses a timeout that is none; the parser calls it.
func (f ConnectFlags) Validate() error {
	if f.ConnectTimeout <= 0 {
		return fmt.Errorf("--connect-timeout is %v; it must be above 0", f.ConnectTimeout)
	}
	return nil
}

// Waits bound what a command waits for. Without any, its flags and the clock do; tests
// have others.
type Waits struct {
	Dial  time.Duration // for a server at the start, and its first answer; 0: --connect-timeout
	Drain time.Duration // for services to finish or hand over; 0: cluster.DrainTime
	// Ending ends a context at a time, for a cause; nil: as the clock does.
	Ending func(context.Context, time.Time, error) (context.Context, context.CancelFunc)
}

// Dialing returns how long a command waits for a server at the start.
func (w Waits) Dialing(f ConnectFlags) time.Duration { return cmp.Or(w.Dial, f.ConnectTimeout) }

// Until ends a context at a time.
func (w Waits) Until(ctx context.Context, end time.Time, why error) (context.Context, context.CancelFunc) {
	if w.Ending != nil {
		return w.Ending(ctx, end, why)
	}
	return context.WithDeadlineCause(ctx, end, why)
}

// BusConfig returns the connection that the flags ask for.
func (g Globals) BusConfig() bus.Config {
	return bus.Config{
		URL: g.NATS, Creds: g.Creds, TLSCA: g.TLSCA, TLSCert: g.TLSCert, TLSKey: g.TLSKey, Insecure: g.Insecure,
		Domain: g.JSDomain, APIPrefix: g.JSAPIPrefix,
	}
}

// Connect connects a command that is no service.
func (e *Env) Connect(ctx context.Context, name string, f ConnectFlags) (*bus.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, e.Waits.Dialing(f))
	defer cancel()
	conn, err := bus.Connect(dialing, e.BusConfig(), bus.Settings{
		Name: "switchyard " + name, Logger: e.Log, Patience: f.ConnectTimeout, Release: Version,
	})
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, ErrInterrupted
	case errors.Is(err, bus.ErrNoConnection):
		return nil, err
	}
	return nil, Usage(err) // nothing was dialled: the flags do not fit together
}

// Explained adds to an error why nothing came, where the connection knows: it is gone, or the server
// has not let this user do something, which looks like silence.
func Explained(conn *bus.Conn, err error) error {
	denied := conn.Denied()
	switch {
	case err == nil, errors.Is(err, bus.ErrNoConnection):
		return err
	case !conn.Connected():
		return fmt.Errorf("%w: %w", bus.ErrNoConnection, err)
	case denied != nil && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w (%w)", denied, err)
	}
	return err
}

const (
	// tellAfter is how long an outage lasts before it is worth a word, and then
	// before it is worth another.
	tellAfter = 3 * time.Second
	tellPoll  = 100 * time.Millisecond
)

// TellOutages says on stderr what is waited for while the connection is away,
// until stop is called.
func TellOutages(e *Env, conn *bus.Conn, limit time.Duration) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tellPoll)
		defer tick.Stop()
		told := time.Now()
		for {
			select {
			case <-quit:
				return
			case now := <-tick.C:
				if err := conn.Ready(); err == nil {
					told = now
				} else if now.Sub(told) >= tellAfter {
					told = now
					e.Say(fmt.Sprintf("switchyard: %v; waiting for %s, for %v at most (--connect-timeout)\n", err, bus.Redact(e.NATS), limit),
						"waiting for NATS", "url", bus.Redact(e.NATS), "error", err.Error(), "at_most_seconds", limit.Seconds())
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// WithStore connects and runs do, which ends when the server has been away for
// too long.
func (e *Env) WithStore(ctx context.Context, name string, f ConnectFlags, do func(context.Context, *bus.Conn) error) error {
	conn, err := e.Connect(ctx, name, f)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer TellOutages(e, conn, f.ConnectTimeout)()
	doing, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go giveUp(doing, conn, f.ConnectTimeout, cancel)
	err = do(doing, conn)
	switch {
	case err != nil && ctx.Err() != nil:
		return &ExitError{ExitInterrupted, err}
	case err != nil && !errors.Is(err, bus.ErrNoConnection) && errors.Is(context.Cause(doing), bus.ErrNoConnection):
		return fmt.Errorf("%w: %w", bus.ErrNoConnection, err)
	}
	return Explained(conn, err)
}

// giveUp ends ctx when there is no connection for so long.
func giveUp(ctx context.Context, conn *bus.Conn, limit time.Duration, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(tellPoll)
	defer tick.Stop()
	for seen := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if conn.Connected() {
				seen = now
			} else if now.Sub(seen) > limit {
				cancel(bus.ErrNoConnection)
				return
			}
		}
	}
}
