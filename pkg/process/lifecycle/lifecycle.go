// Package lifecycle starts, runs and stops services in a known order.
//
// A service is three functions called in sequence, and never two at once:
//
//	       Start            Run                 Stop
//	new ─────────▶ started ─────▶ running ─────────────▶ stopped
//	 │                │              │  context ended,      ▲
//	 │                │              │  done, or error      │
//	 │                ▼              ▼                      │
//	 └── Stop ──▶ (release what making it and Start took) ────┘
//
// Start takes what is needed and returns when the service could work. Run
// works until its context ends: from then on it takes in nothing new. Stop
// finishes or hands over what was taken in, within its own context's time, and
// releases what Start took, and what the service had before.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Service is a part of a process that is started, run and stopped.
type Service interface {
	// Name is for people: logs, errors, readiness.
	Name() string
	// Start takes what the service needs. After an error it is stopped all the same.
	Start(ctx context.Context) error
	// Run works until ctx ends, then returns nil. An error ends the whole
	// group; nil before ctx ended says that this service is done.
	Run(ctx context.Context) error
	// Stop drains and releases. It may be called before Start and twice; when
	// ctx ends it gives up on draining and only releases.
	Stop(ctx context.Context) error
}

// Readier is a Service that knows when it can do its work.
type Readier interface {
	// Ready returns nil, or what is missing.
	Ready() error
}

// Liver is a Service that knows when only a restart can help it.
type Liver interface {
	// Live returns nil, or what is broken for good.
	Live() error
}

// Run takes one service, often a Group, through its life: until ctx ends or it
// fails. Stopping may then take as long as drain. The end of ctx is a clean
// end: it is not an error.
func Run(ctx context.Context, s Service, drain time.Duration) error {
	err := s.Start(ctx)
	if err == nil {
		err = s.Run(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		err = nil // asked to stop while starting
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	return errors.Join(err, s.Stop(stopping))
}

func named(s Service, act string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", act, s.Name(), err)
}
