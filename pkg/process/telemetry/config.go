package telemetry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/switchyard/switchyard/internal/flagvalue"
)

// Config is what an operator sets about telemetry.
type Config struct {
	// OTLPEndpoint is where traces go by OTLP over HTTP: "http://host:4318" or "https://…".
	// Empty: no traces are made, and they cost nothing.
	OTLPEndpoint string
	// TraceSample is the share of new traces that is kept, from 0 to 1. A
	// request that comes with a trace of its own keeps that one's decision.
	TraceSample float64
	// MetricsAddr is where /metrics, /healthz and /readyz are served; empty: nowhere.
	MetricsAddr string
	// PprofAddr is where Go's profiles are served; empty: at MetricsAddr if that is on the
	// loopback, else nowhere.
	PprofAddr string
	// ServiceName is the process's name in traces and metrics.
	ServiceName string
	// Model is the model's name, a label of every metric; empty: no label.
	Model string
	// Version and NumericClass tell builds apart.
	Version, NumericClass string
	Kernels               string // of the processor
	// Device is the paced device whose times this process's figures are: a label
	// of every metric, and in traces; empty: none.
	Device string
	// Detail is how far metrics are told apart that grow with a model; empty: ByExpert.
	Detail Detail
}

// Validate says how to fix what cannot work.
func (c Config) Validate() error {
	if !(c.TraceSample >= 0 && c.TraceSample <= 1) { // so that NaN is refused, too
		return fmt.Errorf("--trace-sample is %g; it is a ratio from 0 to 1", c.TraceSample)
	}
	if err := c.Detail.check(); err != nil {
		return err
	}
	if c.OTLPEndpoint != "" {
		if _, err := parseEndpoint(c.OTLPEndpoint); err != nil {
			return err
		}
	}
	return errors.Join(checkListen("metrics-addr", c.MetricsAddr), checkListen("pprof-addr", c.PprofAddr))
}

func checkListen(flag, address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := flagvalue.ListenAddress(address); err != nil {
		return fmt.Errorf("--%s is %q; %w", flag, address, err)
	}
	return nil
}

// endpoint is a parsed OTLPEndpoint.
type endpoint struct {
	secure bool
	host   string // host, or host:port
	path   string // empty: the one that collectors have
}

func parseEndpoint(text string) (e endpoint, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return e, fmt.Errorf("--otlp-endpoint %q is none of http://host:4318, https://host:4318", text)
	}
	if u.Port() != "" {
		if err := flagvalue.CheckPort(u.Port()); err != nil {
			return e, fmt.Errorf("--otlp-endpoint is %q; %w", text, err)
		}
	}
	return endpoint{secure: u.Scheme == "https", host: u.Host, path: strings.TrimSuffix(u.Path, "/")}, nil
}
