package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/pkg/process/service"
)

// DefaultListen is where a gateway listens unless it is told otherwise.
const DefaultListen = "127.0.0.1:8080"

// Flags are a gateway's own, but for where it listens.
type Flags struct {
	HTTPKeys       string        `name:"http-keys" help:"File with the clients' API keys, a line each: as switchyard keys writes them (docs/operations/keys.md); without it there are no keys." placeholder:"FILE"`
	HTTPCert       string        `name:"http-cert" help:"PEM file with the certificate for TLS with HTTP's clients." placeholder:"FILE"`
	HTTPKey        string        `name:"http-key" help:"PEM file with its key." placeholder:"FILE"`
	HTTPAccessLog  string        `name:"http-access-log" help:"File that gets a line of JSON for each request (docs/operations/keys.md); - is stdout." placeholder:"FILE" advanced:""`
	HTTPHosts      []string      `name:"http-hosts" help:"Names under which a gateway without keys is served, beside IP addresses, localhost and where it listens: other names may be a page's that wants to reach it." placeholder:"NAME" advanced:""`
	HTTPOrigins    []string      `name:"http-origins" help:"Origins whose pages may ask, as in https://chat.example; * is all, where clients have keys." placeholder:"ORIGIN" advanced:""`
	HTTPMaxBody    string        `name:"http-max-body" default:"4MiB" help:"Most bytes of a request's body." placeholder:"BYTES" advanced:""`
	HTTPMaxStreams int           `name:"http-max-streams" default:"1024" help:"Answers that may be under way at a time, at most half of them of one tenant; more are refused as overload." placeholder:"N" advanced:""`
	HTTPMaxConns   int           `name:"http-max-conns" default:"16384" help:"Connections that may be open at a time, at most half of them of one tenant or, without a key, one address; for more, idle ones are closed, those without a key first." placeholder:"N" advanced:""`
	HTTPStall      time.Duration `name:"http-stall" default:"30s" help:"How long a client may take over its body beside a second for each 64 KiB of it, and over reading an event, before its request ends." placeholder:"TIME" advanced:""`
}

// Command are the flags of a process that is a gateway alone.
type Command struct {
	Flags `embed:""`

	Listen string `default:"127.0.0.1:8080" help:"host:port where HTTP's clients reach it; off the loopback it needs --http-cert and --http-keys, or --insecure." placeholder:"ADDR"`
}

// Config is what an operator sets.
type Config struct {
	// Listen is where clients reach it. Listener, if it is not nil, is open there already.
	Listen   string
	Listener net.Listener

	// Alone says that nothing else of weight is in this process.
	Alone bool

	Keys, Cert, Key string
	AccessLog       string
	Hosts, Origins  []string
	MaxBody         int64
	MaxStreams      int
	MaxConns        int
	Stall           time.Duration
}

// Config is what they say.
func (c *Command) Config(p service.Process) (Config, error) {
	out, err := c.Flags.Config(c.Listen, p)
	out.Alone = true
	return out, err
}

// mostStreams bounds what takes memory beforehand.
const mostStreams = 1 << 20

// Config is what they say of a gateway that listens at an address.
func (f *Flags) Config(listen string, p service.Process) (Config, error) {
	c := Config{Listen: listen, Keys: f.HTTPKeys, Cert: f.HTTPCert, Key: f.HTTPKey, AccessLog: f.HTTPAccessLog, MaxStreams: f.HTTPMaxStreams, MaxConns: f.HTTPMaxConns, Stall: f.HTTPStall, Hosts: f.HTTPHosts, Origins: f.HTTPOrigins}
	host, _, err := flagvalue.ListenAddress(listen)
	if err != nil {
		return c, fmt.Errorf("the gateway's address (--listen, or --http of up) is %q; %w", listen, err)
	}
	if c.MaxBody, err = flagvalue.Bytes("http-max-body", f.HTTPMaxBody); err != nil {
		return c, err
	}
	switch {
	case (c.Cert == "") != (c.Key == ""):
		return c, errors.New("--http-cert and --http-key are given together, or not at all")
	case c.Stall < time.Second:
		return c, fmt.Errorf("--http-stall is %v; it must be at least a second", c.Stall)
	case !flagvalue.IsLoopback(host) && !p.Insecure && (c.Cert == "" || c.Keys == ""):
		return c, fmt.Errorf("the gateway would listen at %s, off the loopback: give --http-cert, --http-key and --http-keys, or --insecure where something before it has TLS and knows its clients", listen)
	}
	return c, errors.Join(checkHosts(c.Hosts), checkOrigins(c.Origins, c.Keys), service.CheckRange("http-max-streams", c.MaxStreams, 1, mostStreams), service.CheckRange("http-max-conns", c.MaxConns, 1, mostStreams))
}
