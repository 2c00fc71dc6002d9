package main

import (
	"context"
	"errors"
	"time"

	"github.com/switchyard/switchyard/pkg/bus"
)

// clientPatience is how long a command that is no service tries to connect. A
// service waits for its server as long as it takes.
const clientPatience = 5 * time.Second

// busConfig is the connection that the flags ask for.
func (g Globals) busConfig() bus.Config {
	return bus.Config{
		URL: g.NATS, Creds: g.Creds, TLSCA: g.TLSCA, TLSCert: g.TLSCert, TLSKey: g.TLSKey, Insecure: g.Insecure,
	}
}

// connect connects a command that is no service.
func (e *env) connect(ctx context.Context, name string) (*bus.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, clientPatience)
	defer cancel()
	conn, err := bus.Connect(dialing, e.busConfig(), bus.Settings{Name: "switchyard " + name, Logger: e.log})
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, errInterrupted
	case errors.Is(err, bus.ErrNoConnection):
		return nil, err
	}
	return nil, usage(err) // nothing was dialled: the flags do not fit together
}
