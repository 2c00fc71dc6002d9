package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/switchyard/switchyard/services/gateway"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/cluster"
)

// Values of --http that are no address.
const (
	autoHTTP = "auto"
	noHTTP   = "off"
)

// httpDoor is where HTTP's clients reach the gateway of this process.
type httpDoor struct {
	listener net.Listener // nil: nowhere
	tls      bool
}

// openHTTP adds a gateway to what runs, unless there is to be none. The address is opened
// before anything else is: one that another process has is known at once.
func (c *Cmd) openHTTP(ctx context.Context, e *cli.Env, s *cluster.Settings) (d httpDoor, err error) {
	if c.HTTP == noHTTP {
		return d, nil
	}
	at, auto := c.HTTP, c.HTTP == autoHTTP
	if auto {
		at = gateway.DefaultListen
	}
	own, err := c.GatewayFlags.Config(at, ProcessOf(e.Globals, c.ModelFlags))
	if err != nil {
		return d, cli.Usage(err)
	}
	if c.Auth.On && own.Keys == "" { // else everybody could ask by HTTP, whom NATS does not let in
		if !auto {
			return d, cli.Usage(errors.New("--auth lets in users alone, and --http without --http-keys everybody: give --http-keys, or --http off"))
		}
		e.Log.Warn("no gateway runs: with --auth it needs --http-keys; --http off says that none is wanted")
		return d, nil
	}
	own.Listener, err = gateway.Listen(ctx, at)
	switch {
	case err != nil && auto && errors.Is(err, syscall.EADDRINUSE):
		e.Log.Warn("no gateway runs, as another process is at its address; choose one with --http HOST:PORT, or --http off", "address", at)
		return d, nil
	case err != nil:
		return d, cli.Usage(fmt.Errorf("--http is %q; %w", c.HTTP, err))
	}
	s.Count["gateway"] = 1
	s.Services.Set("gateway", own)
	return httpDoor{own.Listener, own.Cert != ""}, nil
}

// close closes the listener, if nobody has used it.
func (d httpDoor) close() error {
	if d.listener == nil {
		return nil
	}
	return d.listener.Close()
}

// url returns where clients reach it; empty: nowhere.
func (d httpDoor) url() string {
	switch {
	case d.listener == nil:
		return ""
	case d.tls:
		return "https://" + d.listener.Addr().String()
	}
	return "http://" + d.listener.Addr().String()
}

// greeting returns a command that works as it stands.
func (d httpDoor) greeting(model string, how suggestion) string {
	if d.listener == nil || !how.text {
		return ""
	}
	return fmt.Sprintf("  curl %s/v1/completions -d '{\"model\":\"%s\",\"prompt\":\"%s\",\"max_tokens\":100}'\n", d.url(), model, how.body)
}
