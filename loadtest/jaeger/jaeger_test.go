// Package jaeger sends a real request through the real binary with a real
// Jaeger beside it, and asks Jaeger for the request's trace.
//
//	loadtest/jaeger/build        # minutes, once
//	make build
//	SWITCHYARD_JAEGER=1 go test ./loadtest/jaeger
//
// SWITCHYARD_JAEGER can also name the Jaeger to use, and SWITCHYARD_BIN the binary.
package jaeger

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/switchyard/switchyard/internal/testkit"
)

const (
	builtJaeger = "../../.cache/bin/jaeger-v1.76.0"
	builtBinary = "../../bin/switchyard"
	// startTime bounds the start of a program on a busy machine.
	startTime = 30 * time.Second
	// traceTime bounds the time from a request's end to its trace's being whole.
	traceTime = 30 * time.Second
)

// path returns a program; it skips the test when there is none.
func path(t *testing.T, variable, built, how string) string {
	t.Helper()
	program := built
	if named := os.Getenv(variable); named != "" && named != "1" {
		program = named
	}
	abs, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(abs); err != nil {
		t.Skipf("%s is not here; run %s, or name it in %s", program, how, variable)
	}
	return abs
}

// start runs a program until the test ends it by a signal, with its stderr in lines.
func start(t *testing.T, end os.Signal, program string, args ...string) (lines <-chan string) {
	t.Helper()
	c := exec.Command(program, args...)
	stderr, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			select {
			case out <- scanner.Text():
			default: // nobody reads any more
			}
		}
	}()
	t.Cleanup(func() { stop(t, c, end, out) })
	return out
}

// stop asks a program to end, and kills it if it does not.
func stop(t *testing.T, c *exec.Cmd, end os.Signal, lines <-chan string) {
	kill := time.AfterFunc(startTime, func() { _ = c.Process.Kill() }) // it may have ended
	defer kill.Stop()
	_ = c.Process.Signal(end) // it may have ended
	var last []string
	for line := range lines {
		last = append(last, line)
	}
	if t.Failed() {
		t.Logf("%s ended with\n%s", filepath.Base(c.Path), strings.Join(last[max(0, len(last)-20):], "\n"))
	}
	_ = c.Wait() // its status does not matter once it is asked to end
}

// startJaeger runs Jaeger in memory, and returns where traces go and where they are asked for.
func startJaeger(t *testing.T) (otlp, query string) {
	t.Helper()
	if os.Getenv("SWITCHYARD_JAEGER") == "" {
		t.Skip("SWITCHYARD_JAEGER is not set: a real Jaeger takes minutes to build; make trace-test does it all")
	}
	program := path(t, "SWITCHYARD_JAEGER", builtJaeger, "loadtest/jaeger/build")
	t.Setenv("SPAN_STORAGE_TYPE", "memory")
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off") // Jaeger would trace itself; Switchyard has its own flag
	otlp, query = testkit.FreeAddr(t), testkit.FreeAddr(t)
	// Killed, as it has nothing to lose.
	start(t, os.Kill, program,
		"--collector.otlp.http.host-port="+otlp, "--query.http-server.host-port="+query,
		"--collector.otlp.grpc.host-port="+testkit.FreeAddr(t), "--query.grpc-server.host-port="+testkit.FreeAddr(t),
		"--collector.grpc-server.host-port="+testkit.FreeAddr(t), "--collector.http-server.host-port="+testkit.FreeAddr(t),
		"--admin.http.host-port="+testkit.FreeAddr(t),
		"--memory.max-traces=1000", "--log-level=warn")
	await(t, startTime, func() error {
		var answer struct{ Data []string }
		return get(t, "http://"+query+"/api/services", &answer)
	})
	return otlp, query
}

// await polls until check returns nil.
func await(t *testing.T, limit time.Duration, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", limit, err)
		}
	}
}

func get(t *testing.T, where string, answer any) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return fmt.Errorf("making a request for %s: %w", where, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking Jaeger: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking Jaeger for %s: status %s", where, resp.Status)
	}
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		return fmt.Errorf("reading Jaeger's answer: %w", err)
	}
	return nil
}

// trace is what Jaeger's query API says of one.
type trace struct {
	TraceID string
	Spans   []span
}

type span struct {
	SpanID        string
	OperationName string
	References    []struct{ SpanID string }
	Tags          []struct {
		Key   string
		Value any
	}
}

// tag returns an attribute of a span.
func (s *span) tag(key string) any {
	for _, t := range s.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return nil
}

// traces returns the traces of every service whose name begins with "switchyard".
func traces(t *testing.T, query string) (map[string]trace, error) {
	var services struct{ Data []string }
	if err := get(t, "http://"+query+"/api/services", &services); err != nil {
		return nil, err
	}
	all := map[string]trace{}
	for _, name := range services.Data {
		if !strings.HasPrefix(name, "switchyard") {
			continue
		}
		var found struct{ Data []trace }
		if err := get(t, "http://"+query+"/api/traces?limit=100&service="+url.QueryEscape(name), &found); err != nil {
			return nil, err
		}
		for _, one := range found.Data {
			all[one.TraceID] = one
		}
	}
	return all, nil
}

// path of a token, as spans.
var wanted = []string{"prompt", "tokenize", "step", "layer", "attention", "gate", "expert", "aggregate", "chunk"}

// whole says what is missing from a request's trace.
func (tr *trace) whole() error {
	count, ids := map[string]int{}, map[string]bool{}
	for i := range tr.Spans {
		count[tr.Spans[i].OperationName]++
		ids[tr.Spans[i].SpanID] = true
	}
	for _, name := range wanted {
		if count[name] == 0 {
			return fmt.Errorf("trace %s has no span %q, only %v", tr.TraceID, name, count)
		}
	}
	return tr.connected(ids)
}

// connected wants one root, every other span's parent in the trace, and layers
// that say where they are.
func (tr *trace) connected(ids map[string]bool) error {
	var roots []string
	for i := range tr.Spans {
		s := &tr.Spans[i]
		if len(s.References) == 0 {
			roots = append(roots, s.OperationName)
		}
		for _, r := range s.References {
			if !ids[r.SpanID] {
				return fmt.Errorf("the parent of a span %q is missing from trace %s", s.OperationName, tr.TraceID)
			}
		}
		if s.OperationName == "layer" && (s.tag("layer") == nil || s.tag("step") == nil) {
			return fmt.Errorf("a span \"layer\" lacks layer or step: %v", s.Tags)
		}
	}
	if !slices.Equal(roots, []string{"prompt"}) {
		return fmt.Errorf("the roots of trace %s are %v, want one prompt", tr.TraceID, roots)
	}
	return nil
}

// TestJaegerStarts keeps the harness itself working.
func TestJaegerStarts(t *testing.T) {
	_, query := startJaeger(t)
	if all, err := traces(t, query); err != nil || len(all) != 0 {
		t.Errorf("a new Jaeger has %v: %v", all, err)
	}
}

// TestRequestIsOneTrace sends a request through every service and wants one
// trace with every hop of it.
func TestRequestIsOneTrace(t *testing.T) {
	otlp, query := startJaeger(t)
	binary := path(t, "SWITCHYARD_BIN", builtBinary, "make build")
	if out, err := exec.Command(binary, "up", "--help").CombinedOutput(); err != nil {
		t.Skipf("this binary has no `up`: %s", out)
	}
	nats := testkit.FreeAddr(t)
	awaitLine(t, start(t, syscall.SIGTERM, binary, "up", "--listen", nats, "--http", "off", "--otlp-endpoint", "http://"+otlp, "--trace-sample", "1"), "ready")
	prompt := exec.Command(binary, "prompt", "--nats", "nats://"+nats, "--max-tokens", "3", "--json", "Once upon a time")
	if out, err := prompt.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", prompt, err, out)
	}
	await(t, traceTime, func() error {
		all, err := traces(t, query)
		if err != nil {
			return err
		}
		err = fmt.Errorf("Jaeger has no trace of Switchyard yet")
		for _, one := range all {
			if err = one.whole(); err == nil {
				return nil
			}
		}
		return err
	})
}

// awaitLine waits until a program writes a line that has a word.
func awaitLine(t *testing.T, lines <-chan string, word string) {
	t.Helper()
	limit := time.After(startTime)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("the program ended before it was %s", word)
			}
			if strings.Contains(line, word) {
				return
			}
			t.Log(line)
		case <-limit:
			t.Fatalf("the program was not %s after %s", word, startTime)
		}
	}
}
