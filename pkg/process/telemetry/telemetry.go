// Package telemetry is what a process tells about itself: traces over OTLP,
// metrics for Prometheus, and whether it is alive and ready.
//
// A Telemetry works from Setup on, and is a lifecycle service that stops last,
// so that everything else can be seen: what it waits for at its start, and its end.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/switchyard/switchyard/internal/flagvalue"
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

	listener net.Listener // nil: no port
	server   *http.Server
	served   chan error // gets why a server has ended

	profiles   *http.Server // nil: no port of their own
	profilesAt string

	mu      sync.Mutex
	tracers map[[2]string]*Tracer // by service and replica
	gateway *GatewayMetrics       // nil: no gateway has asked for them
	health  Health
	beside  []*Telemetry // of further models of the process
	stopped bool
	lent    bool // processor is another Telemetry's, which ends it
}

// ErrListen is that MetricsAddr cannot be opened.
var ErrListen = errors.New("listening on --metrics-addr")

// Setup returns the telemetry that c asks for, and serves MetricsAddr until
// Stop or Close. ctx bounds the making of the exporter, which connects when it first sends.
func Setup(ctx context.Context, c Config) (*Telemetry, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	registry := newRegistry()
	t := newTelemetry(registry, c)
	if err := t.export(ctx); err != nil {
		return nil, err
	}
	if err := errors.Join(t.listen(ctx), t.listenForProfiles(ctx)); err != nil {
		return nil, errors.Join(err, t.Close()) //nolint:contextcheck // it ends within a second, also when ctx has ended
	}
	return t, nil
}

func newTelemetry(registry *prometheus.Registry, c Config) *Telemetry {
	t := &Telemetry{
		Metrics: NewMetrics(labelled(registry, c)), Registry: registry,
		config: c, tracers: map[[2]string]*Tracer{}, served: make(chan error, 2),
	}
	t.Metrics.thin(c.Detail)
	t.Metrics.Ready.Follow(func() []Reading { return []Reading{{Value: flag(t.ask(Health.Ready) == nil)}} })
	t.Metrics.Storing.Follow(func() []Reading {
		var nothing interface{ StoresNothing() }
		return []Reading{{Value: flag(!errors.As(t.ask(Health.Ready), &nothing))}}
	})
	return t
}

// export makes traces, if there is somewhere to send them.
func (t *Telemetry) export(ctx context.Context) error {
	c := t.config
	if c.OTLPEndpoint == "" {
		return nil
	}
	exporter, err := newExporter(ctx, c.OTLPEndpoint)
	if err != nil {
		return fmt.Errorf("making the trace exporter for %s: %w", c.OTLPEndpoint, err)
	}
	t.trace(sdktrace.NewBatchSpanProcessor(exporter, sdktrace.WithBatchTimeout(time.Second)))
	return nil
}

// Record hands the spans of all requests to p in an exporter's place, for tests. No tracer has been
// asked for yet.
func (t *Telemetry) Record(p sdktrace.SpanProcessor) {
	t.config.TraceSample = 1
	t.trace(p)
}

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

// headerWithin bounds how long a client may take over its request.
const headerWithin = 5 * time.Second

// listen opens MetricsAddr and serves it.
func (t *Telemetry) listen(ctx context.Context) (err error) {
	if t.config.MetricsAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	if t.listener, err = lc.Listen(ctx, "tcp", t.config.MetricsAddr); err != nil {
		return fmt.Errorf("%w %s (is another process there? choose another port): %w", ErrListen, t.config.MetricsAddr, err)
	}
	t.server = &http.Server{Handler: ownNames(t.config.MetricsAddr, t.Handler()), ReadHeaderTimeout: headerWithin}
	go func() { t.served <- t.server.Serve(t.listener) }()
	return nil
}

// Start has nothing left to do: Setup has begun.
func (t *Telemetry) Start(context.Context) error { return nil }

// Addr returns the address that MetricsAddr became; empty without one.
func (t *Telemetry) Addr() string {
	if t.listener == nil {
		return ""
	}
	return t.listener.Addr().String()
}

// Run watches over the server until ctx ends. The server goes on then: Stop ends it.
func (t *Telemetry) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-t.served:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serving metrics on %s: %w", t.Addr(), err)
	}
}

// Stop sends the spans that are left and closes the port.
func (t *Telemetry) Stop(ctx context.Context) error {
	if !t.end() {
		return nil
	}
	err := errors.Join(t.flush(ctx), t.closeProfiles())
	if t.server != nil {
		err = errors.Join(err, closing(t.server.Shutdown(ctx)), closing(t.listener.Close()))
	}
	return err
}

// closeWithin bounds what Close waits for who takes spans.
const closeWithin = time.Second

// Close is Stop for a process that did not get as far as to run: it waits for
// nobody who reads metrics, and hardly for who takes spans. After Stop it has
// nothing to do.
func (t *Telemetry) Close() error {
	if !t.end() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	err := errors.Join(t.flush(ctx), t.closeProfiles())
	if t.server != nil {
		err = errors.Join(err, closing(t.server.Close()), closing(t.listener.Close()))
	}
	return err
}

// end says once that the end has come.
func (t *Telemetry) end() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.stopped
	t.stopped = true
	return first
}

// flush sends the spans that are left, and makes no more of them.
func (t *Telemetry) flush(ctx context.Context) error {
	if t.processor == nil || t.lent {
		return nil
	}
	if err := t.processor.Shutdown(ctx); err != nil {
		return fmt.Errorf("sending the last spans to %s: %w", t.config.OTLPEndpoint, err)
	}
	return nil
}

// closing leaves out the error of a listener that is closed already.
func closing(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("closing the metrics server: %w", err)
}

// Handler serves /metrics, /healthz and /readyz, and on the loopback Go's profiles beneath
// /debug/pprof/.
func (t *Telemetry) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", t.Page())
	mux.HandleFunc("GET /healthz", t.answer("live", Health.Live))
	mux.HandleFunc("GET /readyz", t.answer("ready", Health.Ready))
	if t.config.profilesBeside() {
		withProfiles(mux)
	}
	return mux
}

// answer returns a page that says word, or with status 503 what is missing.
func (t *Telemetry) answer(word string, ask func(Health) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := t.askAll(ask); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "not %s:\n%v\n", word, err) // the client may be gone
			return
		}
		_, _ = fmt.Fprintln(w, word)
	}
}

// ask asks the health; before there is one the process is live and not ready.
func (t *Telemetry) ask(question func(Health) error) error {
	t.mu.Lock()
	health := t.health
	t.mu.Unlock()
	if health == nil {
		health = unknownHealth{}
	}
	return question(health)
}

type unknownHealth struct{}

// Live has nothing to object: the process runs.
func (unknownHealth) Live() error { return nil }

// Ready says no: it is not known what has to be ready.
func (unknownHealth) Ready() error { return fmt.Errorf("the process is still being put together") }

// ownNames serves what listens on the loopback under this machine's own names, so that no page
// reads it whose name was made to lead there.
func ownNames(address string, next http.Handler) http.Handler {
	if host, _, err := net.SplitHostPort(address); err != nil || !flagvalue.IsLoopback(host) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !flagvalue.IsOwnName(r.Host) {
			http.Error(w, "this address is served under IP addresses and localhost alone", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withProfiles adds Go's profiles. They show the command line and what functions do, and
// whoever asks for one slows the process down: so only an address of this machine has them
// unasked.
func withProfiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
}

// profilesBeside reports whether MetricsAddr has the profiles too.
func (c Config) profilesBeside() bool {
	host, _, err := net.SplitHostPort(c.MetricsAddr)
	return c.PprofAddr == "" && err == nil && flagvalue.IsLoopback(host)
}

// ErrListenProfiles is that PprofAddr cannot be opened.
var ErrListenProfiles = errors.New("listening on --pprof-addr")

// listenForProfiles opens PprofAddr and serves it.
func (t *Telemetry) listenForProfiles(ctx context.Context) error {
	if t.config.PprofAddr == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", t.config.PprofAddr)
	if err != nil {
		return fmt.Errorf("%w %s (is another process there? choose another port): %w", ErrListenProfiles, t.config.PprofAddr, err)
	}
	mux := http.NewServeMux()
	withProfiles(mux)
	t.profiles = &http.Server{Handler: ownNames(t.config.PprofAddr, mux), ReadHeaderTimeout: headerWithin}
	t.profilesAt = l.Addr().String()
	go func() { t.served <- t.profiles.Serve(l) }()
	return nil
}

// PprofAddr returns the address that Config's became; empty without one.
func (t *Telemetry) PprofAddr() string { return t.profilesAt }

// closeProfiles waits for nobody who takes a profile.
func (t *Telemetry) closeProfiles() error {
	if t.profiles == nil {
		return nil
	}
	return closing(t.profiles.Close())
}

// waits are how long requests wait, and canaries take.
type waits struct {
	queue, canary prometheus.Histogram
}

func newWaits(r prometheus.Registerer) waits {
	return waits{
		queue:  histogram(r, "queue_wait_seconds", "Time from a request's acceptance to its turn in attention.", waitBuckets),
		canary: histogram(r, "canary_seconds", "Time from a canary's sending to its answer.", fineBuckets),
	}
}

// waitBuckets reach from 1 ms to more than two hours, longer than a request may take by default.
var waitBuckets = prometheus.ExponentialBuckets(1e-3, 2, 24)

// Canary observes the seconds from a canary's sending to its answer.
func (m *Metrics) Canary() prometheus.Observer { return m.waits.canary }

// QueueWait observes the seconds from a request's acceptance to its turn.
func (m *Metrics) QueueWait() prometheus.Observer { return m.waits.queue }
