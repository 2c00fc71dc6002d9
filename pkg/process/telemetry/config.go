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
	// OTLPEndpoint is where traces go: "http://host:4318" or "https://…" for
	// OTLP over HTTP, "grpc://host:4317", "grpcs://…" or "host:4317" for gRPC.
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
	http   bool
	secure bool
	host   string // host:port
	path   string // of HTTP; empty: the exporter's default
}

var endpointSchemes = map[string]endpoint{
	"grpc":  {},
	"grpcs": {secure: true},
	"http":  {http: true},
	"https": {http: true, secure: true},
}

func parseEndpoint(text string) (endpoint, error) {
	full := text
	scheme, _, found := strings.Cut(text, "://")
	if !found {
		scheme, full = "grpc", "grpc://"+text
	}
	e, known := endpointSchemes[scheme]
	u, err := url.Parse(full)
	if !known || err != nil || u.Hostname() == "" || !e.http && u.Port() == "" {
		return e, fmt.Errorf("--otlp-endpoint %q is none of http://host:4318, https://host:4318, grpc://host:4317, grpcs://host:4317", text)
	}
	if u.Port() != "" {
		if err := flagvalue.CheckPort(u.Port()); err != nil {
			return e, fmt.Errorf("--otlp-endpoint is %q; %w", text, err)
		}
	}
	e.host, e.path = u.Host, strings.TrimSuffix(u.Path, "/")
	return e, nil
}
