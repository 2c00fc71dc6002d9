// Package telemetry is what a process tells about itself: traces over OTLP,
// metrics for Prometheus, and whether it is alive and ready.
//
// A Telemetry is a lifecycle service that starts first and stops last, so that
// everything else can be seen, its end included.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Health says how a process does; a lifecycle group is one.
type Health interface {
	// Ready returns nil, or what is not ready.
	Ready() error
	// Live returns nil, or what only a restart can help.
	Live() error
}

// Telemetry is the telemetry of one process.
type Telemetry struct {
	// Metrics is every metric of the process.
	Metrics *Metrics
	// Registry is where Metrics are registered.
	Registry *prometheus.Registry
	// Propagator carries traces in message headers.
	Propagator Propagator

	config    Config
	processor sdktrace.SpanProcessor // nil: no traces
	sampler   sdktrace.Sampler

	mu       sync.Mutex
	tracers  map[string]*Tracer
	health   Health
	listener net.Listener
	server   *http.Server
	stopped  bool
}

// Setup returns the telemetry that c asks for. It opens no port yet; ctx
// bounds the making of the exporter, which connects when it first sends.
func Setup(ctx context.Context, c Config) (*Telemetry, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	registry := newRegistry()
	t := &Telemetry{
		Metrics: NewMetrics(registry), Registry: registry,
		config: c, tracers: map[string]*Tracer{},
	}
	if c.OTLPEndpoint == "" {
		return t, nil
	}
	exporter, err := newExporter(ctx, c.OTLPEndpoint)
	if err != nil {
		return nil, fmt.Errorf("making the trace exporter for %s: %w", c.OTLPEndpoint, err)
	}
	t.trace(sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBatchTimeout(time.Second)))
	return t, nil
}

// trace sends spans to p from now on.
func (t *Telemetry) trace(p sdktrace.SpanProcessor) {
	t.processor = p
	t.sampler = sdktrace.ParentBased(sdktrace.TraceIDRatioBased(t.config.TraceSample))
}

// Watch sets what /readyz and /healthz report.
func (t *Telemetry) Watch(h Health) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health = h
}

// Name returns the service's name in its group.
func (t *Telemetry) Name() string { return "telemetry" }

// Start opens MetricsAddr.
func (t *Telemetry) Start(ctx context.Context) error {
	if t.config.MetricsAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", t.config.MetricsAddr)
	if err != nil {
		return fmt.Errorf("listening on metrics-addr %s: %w", t.config.MetricsAddr, err)
	}
	server := &http.Server{Handler: t.Handler(), ReadHeaderTimeout: 5 * time.Second}
	t.mu.Lock()
	t.listener, t.server = listener, server
	t.mu.Unlock()
	return nil
}

// Addr is the address that MetricsAddr became, once started; empty without one.
func (t *Telemetry) Addr() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// Run serves until ctx ends. It goes on serving then: Stop ends it.
func (t *Telemetry) Run(ctx context.Context) error {
	t.mu.Lock()
	listener, server := t.listener, t.server
	t.mu.Unlock()
	if server == nil {
		<-ctx.Done()
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serving metrics on %s: %w", listener.Addr(), err)
	}
}

// Stop sends the spans that are left and closes the port.
func (t *Telemetry) Stop(ctx context.Context) error {
	t.mu.Lock()
	server, listener, processor, again := t.server, t.listener, t.processor, t.stopped
	t.stopped = true
	t.mu.Unlock()
	if again {
		return nil
	}
	var errs []error
	if processor != nil {
		if err := processor.Shutdown(ctx); err != nil {
			errs = append(errs, fmt.Errorf("sending the last spans to %s: %w", t.config.OTLPEndpoint, err))
		}
	}
	if server != nil {
		errs = append(errs, closing(server.Shutdown(ctx)), closing(listener.Close()))
	}
	return errors.Join(errs...)
}

// closing leaves out the error of a listener that is closed already.
func closing(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("closing the metrics server: %w", err)
}
