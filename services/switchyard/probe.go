package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/switchyard/switchyard/internal/flagvalue"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// ProbeCmd asks a process of this machine how it does, for images that have no other client.
type ProbeCmd struct {
	MetricsAddr string        `required:"" help:"host:port that the process serves /readyz and /healthz at." placeholder:"ADDR"`
	Live        bool          `help:"Ask whether the process lives (/healthz), not whether it is ready (/readyz)."`
	Timeout     time.Duration `env:"-" default:"5s" help:"How long to wait for the answer." placeholder:"TIME"`
}

// mostAnswer bounds what of an answer is read.
const mostAnswer = 64 << 10

// Run fails with what is missing.
func (c *ProbeCmd) Run(ctx context.Context, e *cli.Env) error {
	url, err := c.url()
	if err != nil {
		return cli.Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return cli.Usage(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("no answer at --metrics-addr: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(text)))
	}
	_, err = e.Out.Write(text)
	return err
}

// url returns the loopback's where the process listens on all interfaces.
func (c *ProbeCmd) url() (string, error) {
	host, port, err := flagvalue.ListenAddress(c.MetricsAddr)
	if err != nil {
		return "", fmt.Errorf("--metrics-addr is %q; %w", c.MetricsAddr, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	page := "/readyz"
	if c.Live {
		page = "/healthz"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(port)) + page, nil
}
