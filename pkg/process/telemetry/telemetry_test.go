package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/switchyard/switchyard/internal/testkit/testleaks"
	"github.com/switchyard/switchyard/pkg/process/lifecycle"
)

func TestMain(m *testing.M) { testleaks.Main(m) }

// health is a fake whose answers can be set.
type health struct{ ready, live error }

func (h health) Ready() error { return h.ready }
func (h health) Live() error  { return h.live }

// nothingStored is an error of a disk.
type nothingStored struct{ error }

func (nothingStored) StoresNothing() {}

// That NATS stores nothing is told apart from other reasons not to be ready.
func TestStorage(t *testing.T) {
	tel := setup(t, Config{})
	defer func() { _ = tel.Close() }()
	full := nothingStored{errors.New("no space left on device")}
	for want, ready := range map[float64][]error{1: {nil, errors.New("no gate")}, 0: {full, fmt.Errorf("gate-1: %w", errors.Join(errors.New("x"), full))}} {
		for _, err := range ready {
			tel.Watch(health{ready: err})
			families, err := tel.Registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if got := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "switchyard_storage_writable" && got != want {
					t.Errorf("%v: %v, want %v", ready, got, want)
				}
			}
		}
	}
}

func setup(t *testing.T, c Config) *Telemetry {
	t.Helper()
	c.ServiceName = "switchyard"
	tel, err := Setup(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// serve runs tel until the test ends.
func serve(t *testing.T, tel *Telemetry) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- lifecycle.Run(ctx, tel, time.Minute) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// Profiles are at the loopback's address, at one of their own, and nowhere that a network
// reaches unasked.
func TestProfiles(t *testing.T) {
	for _, tc := range []struct {
		name   string
		c      Config
		beside bool
		own    bool
	}{
		{"loopback", Config{MetricsAddr: "127.0.0.1:0"}, true, false},
		{"localhost", Config{MetricsAddr: "localhost:0"}, true, false},
		{"all interfaces", Config{MetricsAddr: ":0"}, false, false},
		{"all interfaces by number", Config{MetricsAddr: "0.0.0.0:0"}, false, false},
		{"own port", Config{MetricsAddr: ":0", PprofAddr: "127.0.0.1:0"}, false, true},
		{"own port beside the loopback", Config{MetricsAddr: "127.0.0.1:0", PprofAddr: "127.0.0.1:0"}, false, true},
		{"own port alone", Config{PprofAddr: "127.0.0.1:0"}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tel := setup(t, tc.c)
			serve(t, tel)
			for address, want := range map[string]bool{tel.Addr(): tc.beside, tel.PprofAddr(): tc.own} {
				if address == "" {
					continue
				}
				_, port, err := net.SplitHostPort(address)
				if err != nil {
					t.Fatal(err)
				}
				for _, page := range []string{"", "heap", "cmdline", "profile?seconds=1", "trace?seconds=1"} {
					if !want || page == "" {
						code, _ := get(t, "http://127.0.0.1:"+port+"/debug/pprof/"+page)
						if code == 200 != want {
							t.Errorf("%s has /debug/pprof/%s: %d", address, page, code)
						}
					}
				}
			}
			if tel.PprofAddr() == "" == tc.own {
				t.Errorf("profiles at %q", tel.PprofAddr())
			}
		})
	}
}

// What listens on the loopback is served under names of this machine alone: a page whose name was
// made to lead there reads neither metrics nor profiles.
func TestStrangeNames(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0", PprofAddr: "127.0.0.1:0"})
	serve(t, tel)
	for _, url := range []string{"http://" + tel.Addr() + "/metrics", "http://" + tel.Addr() + "/readyz", "http://" + tel.PprofAddr() + "/debug/pprof/cmdline"} {
		for host, refused := range map[string]bool{"evil.example": true, "evil.example:9090": true, "localhost.evil.example": true, "localhost": false, "127.0.0.1:9090": false} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			got, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = got.Body.Close()
			if (got.StatusCode == http.StatusForbidden) != refused {
				t.Errorf("%s under %s: %d", url, host, got.StatusCode)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestEndpoints(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0", Model: "demo", Version: "v1", NumericClass: "fma32", Kernels: "avx2"})
	serve(t, tel)
	tel.Metrics.Outcome("stop").Inc()
	tel.Metrics.ExpertRows(3, 1<<20).Inc()
	tel.Metrics.Out("hidden").Add(512)
	read := func() map[string]float64 { return map[string]float64{"used": 3, "free": 5} }
	tel.Metrics.KVPages.Follow(read)
	stop := tel.Metrics.KVPages.Follow(read)
	tel.Metrics.QueueDepth.Follow(func() map[string]float64 { return nil })
	tel.Metrics.Answered(Answer{Operation: "chat", Model: "demo", Total: time.Second, FirstToken: time.Second / 2, Tokens: 6})
	missing := errors.New("layer 2: no warm replica of function 17")
	tests := []struct {
		name, path string
		health     Health
		code       int
		want       string
	}{
		{"unknown is live", "/healthz", nil, 200, "live\n"},
		{"unknown is not ready", "/readyz", nil, 503, "not ready:\nthe process is still being put together\n"},
		{"ready", "/readyz", health{}, 200, "ready\n"},
		{"not ready", "/readyz", health{ready: missing}, 503, "not ready:\nlayer 2: no warm replica of function 17\n"},
		{"dead", "/healthz", health{live: missing}, 503, "not live:\n"},
		{"requests", "/metrics", nil, 200, `switchyard_requests_total{model="demo",outcome="stop"} 1`},
		{"experts", "/metrics", nil, 200, `switchyard_expert_rows_total{expert="other",layer="3",model="demo"} 1`},
		{"bytes", "/metrics", nil, 200, `switchyard_bus_payload_bytes_total{direction="out",model="demo",stream="hidden"} 512`},
		{"pages of all replicas", "/metrics", nil, 200, `switchyard_kv_pages{model="demo",state="used"} 6`},
		{"from the start", "/metrics", nil, 200, `switchyard_requests_total{model="demo",outcome="model_not_found"} 0`},
		{"evictions from the start", "/metrics", nil, 200, `switchyard_function_evictions_total{cause="pressure",model="demo"} 0`},
		{"quarantine from the start", "/metrics", nil, 200, `switchyard_quarantine_changes_total{model="demo",state="avoided"} 0`},
		{"build", "/metrics", nil, 200, `switchyard_build_info{goversion="` + runtime.Version() + `",kernels="avx2",model="demo",numeric_class="fma32",version="v1"} 1`},
		{"conventions", "/metrics", nil, 200, `gen_ai_server_time_per_output_token_seconds_sum{error_type="",gen_ai_operation_name="chat",gen_ai_provider_name="switchyard",gen_ai_request_model="demo",gen_ai_response_model="demo",model="demo"} 0.1`},
		{"go", "/metrics", nil, 200, "go_goroutines"},
		{"elsewhere", "/", nil, 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tel.Watch(tt.health)
			code, body := get(t, "http://"+tel.Addr()+tt.path)
			if code != tt.code || !strings.Contains(body, tt.want) {
				t.Errorf("got %d %q, want %d %q", code, body, tt.code, tt.want)
			}
		})
	}
	stop()
	if _, body := get(t, "http://"+tel.Addr()+"/metrics"); !strings.Contains(body, `kv_pages{model="demo",state="used"} 3`) || strings.Contains(body, "queue_depth{") {
		t.Errorf("what has stopped, or is not known, is shown:\n%s", body)
	}
}

// Figures of a paced device say so, each of them.
func TestDevice(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0", Model: "demo", Device: "paced:card"})
	serve(t, tel)
	tel.Metrics.ExpertCompute().Observe(0.1)
	_, body := get(t, "http://"+tel.Addr()+"/metrics")
	if !strings.Contains(body, `switchyard_expert_compute_seconds_count{device="paced:card",model="demo"} 1`) {
		t.Errorf("the device is not with the time that is its own:\n%s", body)
	}
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "switchyard_") && !strings.Contains(line, `device="paced:card"`) {
			t.Errorf("without the device: %s", line)
		}
	}
}

// TestNames keeps every name in the namespace, and with a unit or a count.
func TestNames(t *testing.T) {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		NewMetrics(registerer{func(c prometheus.Collector) { c.Describe(descs) }})
	}()
	for d := range descs {
		name := strings.Split(d.String(), `"`)[1]
		if !strings.HasPrefix(name, "switchyard_") && !strings.HasPrefix(name, "gen_ai_server_") {
			t.Errorf("%s is outside the namespace", name)
		}
	}
}

type registerer struct{ each func(prometheus.Collector) }

func (r registerer) Register(c prometheus.Collector) error { r.each(c); return nil }
func (r registerer) Unregister(prometheus.Collector) bool  { return true }
func (r registerer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		r.each(c)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name   string
		config Config
		want   string
	}{
		{"empty", Config{}, ""},
		{"no scheme", Config{OTLPEndpoint: "localhost:4318"}, "is none of http://host:4318"},
		{"http with path", Config{OTLPEndpoint: "https://host:4318/v1/traces"}, ""},
		{"other scheme", Config{OTLPEndpoint: "ftp://host"}, "--otlp-endpoint"},
		{"no host", Config{OTLPEndpoint: "http://"}, "--otlp-endpoint"},
		{"a word", Config{OTLPEndpoint: "foo"}, `--otlp-endpoint "foo" is none of`},
		{"gRPC", Config{OTLPEndpoint: "grpc://host:4317"}, "is none of http://host:4318"},
		{"http without port", Config{OTLPEndpoint: "http://host"}, ""},
		{"port of traces", Config{OTLPEndpoint: "http://host:99999"}, `--otlp-endpoint is "http://host:99999"; its port must be a number from 1 to 65535`},
		{"sample", Config{TraceSample: 1.5}, "--trace-sample is 1.5; it is a ratio from 0 to 1"},
		{"no number", Config{TraceSample: math.NaN()}, "ratio from 0 to 1"},
		{"addr", Config{MetricsAddr: "9090"}, `--metrics-addr is "9090"; it must be HOST:PORT`},
		{"profiles", Config{PprofAddr: "9090"}, `--pprof-addr is "9090"; it must be HOST:PORT`},
		{"port", Config{MetricsAddr: ":99999"}, `--metrics-addr is ":99999"; its port must be a number from 0`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.config.Validate()
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// traced returns telemetry that keeps its spans in memory.
// A replica is shown while it is here, with where it runs.
func TestReplicaInfo(t *testing.T) {
	tel := setup(t, Config{Model: "demo"})
	gone := tel.Metrics.Replica("gate", "gate-1", "machine", 4711, "v1")
	page := func() string {
		w := httptest.NewRecorder()
		tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Body.String()
	}
	const want = `switchyard_replica_info{host="machine",model="demo",pid="4711",replica="gate-1",service="gate",version="v1"} 1`
	if text := page(); !strings.Contains(text, want) {
		t.Errorf("no %s in\n%s", want, text)
	}
	if gone(); strings.Contains(page(), "gate-1") {
		t.Error("it is gone, and shown")
	}
}

func traced(t *testing.T, sample float64) (*Telemetry, *tracetest.InMemoryExporter) {
	t.Helper()
	tel := setup(t, Config{TraceSample: sample})
	exporter := tracetest.NewInMemoryExporter()
	tel.trace(sdktrace.NewSimpleSpanProcessor(exporter))
	t.Cleanup(func() {
		if err := tel.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel, exporter
}

func TestTraceCrossesMessages(t *testing.T) {
	tel, exporter := traced(t, 1)
	ctx, prompt := tel.Tracer("tokenizer", "tokenizer-1").Start(t.Context(), SpanPrompt)
	h := nats.Header{}
	tel.Propagator.Inject(ctx, h)
	if len(h["traceparent"]) != 1 {
		t.Fatalf("headers are %v", h)
	}
	remote := tel.Propagator.Extract(t.Context(), h)
	_, gate := tel.Tracer("gate", "gate-1").Child(remote, SpanGate)
	gate.End()
	prompt.End()
	spans := exporter.GetSpans()
	if len(spans) != 2 || spans[0].Parent.SpanID() != spans[1].SpanContext.SpanID() {
		t.Fatalf("spans are %v", spans)
	}
	if got := spans[0].Resource.String(); got != "service.instance.id=gate-1,service.name=switchyard-gate" {
		t.Errorf("resource is %s", got)
	}
}

func TestUnsampledCostsNothing(t *testing.T) {
	sampled, exporter := traced(t, 0)
	off := setup(t, Config{})
	ctx, span := sampled.Tracer("tokenizer", "tokenizer-1").Start(t.Context(), SpanPrompt)
	span.End()
	h := nats.Header{}
	for name, tel := range map[string]*Telemetry{"unsampled": sampled, "off": off} {
		tracer := tel.Tracer("gate", "gate-1")
		allocs := testing.AllocsPerRun(100, func() {
			_, span := tracer.Child(ctx, SpanGate)
			tel.Propagator.Inject(ctx, h)
			tel.Propagator.Inject(ctx, nil)
			_ = tel.Propagator.Extract(ctx, nil)
			span.End()
		})
		if allocs != 0 {
			t.Errorf("%s: %g allocations, want 0", name, allocs)
		}
	}
	if len(h) != 0 || len(exporter.GetSpans()) != 0 {
		t.Errorf("headers %v, spans %v", h, exporter.GetSpans())
	}
}

// Attributes of layers are made once, and those of later layers when they are asked for.
func TestLayerAttributes(t *testing.T) {
	for _, layer := range []uint32{0, keptLayers - 1, keptLayers, 1 << 20} {
		c := trace.NewSpanStartConfig(Layer(layer))
		if a := c.Attributes(); len(a) != 1 || a[0] != AttrLayer.Int64(int64(layer)) {
			t.Errorf("layer %d: %v", layer, a)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = Layer(3) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestStopFlushes(t *testing.T) {
	got, url := collector(t)
	tel := setup(t, Config{OTLPEndpoint: url, TraceSample: 1})
	_, span := tel.Tracer("gate", "gate-1").Start(t.Context(), SpanGate)
	span.End()
	for range 2 {
		if err := tel.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := got(); n != 1 {
		t.Errorf("%d exports arrived, want 1", n)
	}
}

func TestPortTaken(t *testing.T) {
	first := setup(t, Config{MetricsAddr: "127.0.0.1:0"})
	serve(t, first)
	_, err := Setup(t.Context(), Config{MetricsAddr: first.Addr()})
	if !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "--metrics-addr "+first.Addr()) {
		t.Error(err)
	}
}

// What began before the port was found to be taken, or another step of the start failed,
// ends with it: nothing exports any more.
func TestFailedStart(t *testing.T) {
	first := setup(t, Config{MetricsAddr: "127.0.0.1:0"})
	serve(t, first)
	for name, fail := range map[string]func(Config) error{
		"port taken": func(c Config) error {
			c.MetricsAddr = first.Addr()
			if tel, err := Setup(t.Context(), c); tel != nil || !errors.Is(err, ErrListen) {
				return fmt.Errorf("set up %v: %w", tel, err)
			}
			return nil
		},
		"no port": func(c Config) error {
			tel := setup(t, c)
			_, span := tel.Tracer("gate", "gate-1").Start(t.Context(), SpanGate)
			span.End()
			return errors.Join(tel.Close(), tel.Close(), tel.Stop(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			t.Cleanup(func() { // after the collector has ended
				if err := testleaks.Find(before); err != nil {
					t.Error(err)
				}
			})
			_, url := collector(t)
			if err := fail(Config{OTLPEndpoint: url, TraceSample: 1}); err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
}

// Close frees the port, and leaves Stop nothing to do.
func TestClose(t *testing.T) {
	tel := setup(t, Config{MetricsAddr: "127.0.0.1:0"})
	if err := errors.Join(tel.Close(), tel.Close(), tel.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	if err := setup(t, Config{MetricsAddr: tel.Addr()}).Close(); err != nil {
		t.Error(err)
	}
}

// What clients wrote is cut in spans, in whole characters.
func TestAttributesAreCut(t *testing.T) {
	tel, exporter := traced(t, 1)
	for _, text := range []string{strings.Repeat("a", 1<<20), strings.Repeat("é", 4000), strings.Repeat("\xff", 4000)} {
		_, span := tel.Tracer("gateway", "").Start(t.Context(), "chat", trace.WithAttributes(AttrRequest.String(text)))
		span.SetAttributes(AttrReason.String(text))
		span.End()
	}
	for _, s := range exporter.GetSpans() {
		for _, a := range s.Attributes {
			if got := a.Value.AsString(); len(got) > 2*mostAttribute || !utf8.ValidString(got) {
				t.Errorf("%s has %d bytes", a.Key, len(got))
			}
		}
	}
}
