package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// sharedText is what several goroutines write: logs, and what a command says beside them.
type sharedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *sharedText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *sharedText) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// probed is a service that runs as a process of its own would, with its port
// for metrics and health.
type probed struct {
	address string
	stop    func()
}

// startProbed starts a service that looks for NATS at an address, with more flags.
func startProbed(t *testing.T, service, nats string, more ...string) *probed {
	t.Helper()
	p := &probed{address: testkit.FreeAddr(t)}
	args := []string{service, "--nats", nats, "--metrics-addr", p.address, "--log-level", "error"}
	args = append(args, more...)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	says := &sharedText{}
	go func() {
		ended <- runWaiting(ctx, args, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: says}, patient)
	}()
	p.stop = func() {
		cancel()
		if code := <-ended; code != cli.ExitDone {
			t.Errorf("%s exited with %d:\n%s", service, code, says)
		}
		ended <- cli.ExitDone // for who stops it again
	}
	t.Cleanup(p.stop)
	return p
}

// get asks for a page; status 0 while the port is closed.
func (p *probed) get(t *testing.T, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// await waits until /readyz answers so.
func (p *probed) await(t *testing.T, status int, says string) {
	t.Helper()
	code, body := 0, ""
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if code, body = p.get(t, "/readyz"); code == status && strings.Contains(body, says) {
			return
		}
	}
	t.Errorf("after %v /readyz says %d %q, want %d %q", testkit.Patience, code, body, status, says)
}

func (p *probed) alive(t *testing.T) {
	t.Helper()
	if code, body := p.get(t, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz says %d %q", code, body)
	}
}

// counts waits until metrics begin a line so: canaries come and go.
func (p *probed) counts(t *testing.T, lines ...string) {
	t.Helper()
	for _, want := range lines {
		body := ""
		for deadline := time.Now().Add(testkit.Patience); !strings.Contains(body, "\n"+want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("no metric %s in\n%s", want, body)
				break
			}
			_, body = p.get(t, "/metrics")
		}
	}
}

// TestReadiness follows the connection, the plan and the neighbours, down and up.
func TestReadiness(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	dir, address := t.TempDir(), testkit.FreeAddr(t)
	gate := startProbed(t, "gate", "nats://"+address)
	gate.await(t, 503, "gate: no NATS server has answered at nats://"+address+" for ")
	gate.alive(t)
	gate.counts(t, `switchyard_build_info{`, `switchyard_requests_total{model="demo",outcome="model_not_found"} 0`)

	server := startServer(t, dir, address)
	gate.await(t, 503, "no plan whose functions are all warm")
	all := map[string]*probed{"gate": gate}
	for _, name := range []string{"attention", "tokenizer"} {
		all[name] = startProbed(t, name, "nats://"+address)
	}
	all["attention"].await(t, 503, "no aggregator is ready")
	all["tokenizer"].await(t, 503, "no attention replica of model demo is ready")
	for _, name := range []string{"expert", "aggregator"} {
		all[name] = startProbed(t, name, "nats://"+address)
	}
	for _, p := range all {
		p.await(t, 200, "ready")
		p.counts(t, `switchyard_redeliveries_total{model="demo",stream="sequence"} `)
	}
	all["attention"].counts(t, `switchyard_kv_pages{model="demo",state="used"} 0`)
	all["tokenizer"].counts(t, `switchyard_queue_depth{model="demo",stream="prompt"} 0`, `switchyard_stream_fill_ratio{model="demo",stream="token"} `)

	server.Shutdown()
	for _, p := range all {
		p.await(t, 503, "no NATS connection for ")
		p.alive(t)
	}
	startServer(t, dir, address)
	for _, p := range all {
		p.await(t, 200, "ready")
	}
	all["expert"].stop()
	gate.await(t, 503, "has functions without a live expert host")
	all["tokenizer"].await(t, 503, "no expert host of model demo is ready")
	all["tokenizer"].counts(t, `switchyard_stage_ready{model="demo",stage="expert"} 0`, `switchyard_stage_ready{model="demo",stage="token"} 0`)
	startProbed(t, "expert", "nats://"+address).await(t, 200, "ready")
	all["tokenizer"].await(t, 200, "ready")
	all["tokenizer"].counts(t, `switchyard_stage_ready{model="demo",stage="token"} 1`)
	all["aggregator"].stop()
	all["attention"].await(t, 503, "no aggregator is ready")
}

func startServer(t *testing.T, dir, address string) *natsserver.Server {
	t.Helper()
	s, err := natsserver.Start(natsserver.Settings{StoreDir: dir, Listen: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// TestReadinessWithHungServer puts something between the service and NATS that
// stops to pass on, and closes nothing.
func TestReadinessWithHungServer(t *testing.T) {
	t.Parallel()
	defer http.DefaultClient.CloseIdleConnections()
	server := startServer(t, t.TempDir(), testkit.FreeAddr(t))
	between := startProxy(t, strings.TrimPrefix(server.URL(), "nats://"))
	aggregator := startProbed(t, "aggregator", "nats://"+between.address)
	aggregator.await(t, 200, "ready")
	between.hang()
	aggregator.await(t, 503, "NATS has been silent for ")
	aggregator.alive(t)
	between.goOn()
	aggregator.await(t, 200, "ready")
}
