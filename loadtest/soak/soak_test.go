// Package soak runs a pipeline for long under a steady load and looks for what
// grows. It is a test of its own, started with SWITCHYARD_SOAK=1h.
package soak

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/fleet"
	"github.com/switchyard/switchyard/pkg/request/client"
	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

const (
	streams = 8
	// logAge is short, so that the token log reaches its steady size early.
	logAge = 5 * time.Minute
)

// sample is one look at the process and the server.
type sample struct {
	at                           time.Duration
	goroutines, rss, kvPages     float64
	tensorBytes, logBytes        uint64
	requests, tokens             int64
	reissues                     float64
	tokensPerSecondSinceLastLook float64
}

func (s sample) String() string {
	return fmt.Sprintf("%8s  %5.0f goroutines  %4.0f MiB resident  %3.0f KV pages  %6d KiB in work streams  %7d KiB of log  %7d requests  %9d tokens (%5.0f/s)  %2.0f re-issues",
		s.at.Round(time.Second), s.goroutines, s.rss/(1<<20), s.kvPages, s.tensorBytes>>10, s.logBytes>>10,
		s.requests, s.tokens, s.tokensPerSecondSinceLastLook, s.reissues)
}

func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SWITCHYARD_SOAK"))
	if err != nil {
		t.Skip("set SWITCHYARD_SOAK to a duration such as 1h to run it")
	}
	y := startPipeline(t, "--log-age", logAge.String())
	load, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var work sync.WaitGroup
	for i := range streams {
		work.Go(func() { y.prompts(load, i) })
	}
	samples := y.watch(load, length)
	work.Wait()
	end := y.settle(t)
	t.Log(end)
	y.check(t, samples, end)
}

// pipeline is the pipeline under load.
type pipeline struct {
	t        *testing.T
	metrics  string
	nc       *nats.Conn
	js       jetstream.JetStream
	began    time.Time
	requests atomic.Int64
	tokens   atomic.Int64
	failures atomic.Int64
}

func startPipeline(t *testing.T, flags ...string) *pipeline {
	t.Helper()
	listen, metrics := testkit.FreeAddr(t), testkit.FreeAddr(t)
	args := append([]string{"up", "--listen", listen, "--http", "off", "--metrics-addr", metrics, "--log-level", "warn"}, flags...)
	up := fleet.Launch(t, "up", filepath.Join(fleet.Build(t), "switchyard"), args...)
	t.Cleanup(func() {
		up.Drain(t)
		t.Logf("the end of its log:\n%s", up.Tail())
	})
	up.Await(t, "ready")
	y := &pipeline{t: t, metrics: metrics, began: time.Now()}
	y.connect("nats://" + listen)
	return y
}

func (y *pipeline) connect(url string) {
	y.t.Helper()
	var err error
	if y.nc, err = nats.Connect(url, nats.MaxReconnects(-1)); err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(y.nc.Close)
	if y.js, err = jetstream.New(y.nc); err != nil {
		y.t.Fatal(err)
	}
}

// prompts sends one request after the other, of many lengths; every ninth is
// cancelled on its way.
func (y *pipeline) prompts(ctx context.Context, worker int) {
	c := y.newClient()
	for n := worker; ctx.Err() == nil; n++ {
		if err := y.prompt(ctx, c, n); err != nil && ctx.Err() == nil {
			y.failures.Add(1)
			y.t.Errorf("request %d of worker %d: %v", n, worker, err)
		}
	}
}

func (y *pipeline) prompt(ctx context.Context, c *client.Client, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tokens, temperature, seed := int32(8+(n*37)%240), 0.8, uint32(n)
	text := strings.Repeat("Once upon a time there was a dog. ", 1+n%12)
	s, err := c.Prompt(ctx, &pb.Prompt{Text: text, MaxTokens: &tokens, Temperature: &temperature, Seed: &seed, IgnoreEos: true})
	if err != nil {
		return err
	}
	y.requests.Add(1)
	got := 0
	for chunk, err := range s.Chunks() {
		if err == nil {
			err = client.Failure(chunk)
		}
		if err != nil {
			return err
		}
		got += len(chunk.TokenIds)
		y.tokens.Add(int64(len(chunk.TokenIds)))
		if n%9 == 0 && chunk.Index == 5 && chunk.FinishReason == "" {
			return c.Cancel(s.RequestID())
		}
	}
	if got != int(tokens) {
		return fmt.Errorf("a clean end after %d of %d tokens", got, tokens)
	}
	return nil
}

// watch samples until ctx ends.
func (y *pipeline) watch(ctx context.Context, length time.Duration) (out []sample) {
	tick := time.NewTicker(max(length/60, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return out
		case <-tick.C:
			s := y.look(out)
			y.t.Log(s)
			out = append(out, s)
		}
	}
}

func (y *pipeline) look(before []sample) sample {
	m := y.scrape()
	s := sample{
		at: time.Since(y.began), goroutines: m["go_goroutines"], rss: m["process_resident_memory_bytes"],
		kvPages: m[`switchyard_kv_pages{model="demo",state="used"}`], reissues: m[`switchyard_reissues_total{model="demo"}`],
		requests: y.requests.Load(), tokens: y.tokens.Load(),
	}
	if len(before) > 0 {
		last := before[len(before)-1]
		s.tokensPerSecondSinceLastLook = float64(s.tokens-last.tokens) / (s.at - last.at).Seconds()
	}
	y.eachStream(func(info *jetstream.StreamInfo) {
		if strings.Contains(info.Config.Name, "_TOKENS_") {
			s.logBytes += info.State.Bytes
		} else if !strings.HasPrefix(info.Config.Name, "KV_") {
			s.tensorBytes += info.State.Bytes
		}
	})
	return s
}

// scrape reads the metrics.
func (y *pipeline) scrape() map[string]float64 {
	m, err := fleet.Metrics(y.t.Context(), y.metrics)
	if err != nil {
		y.t.Error(err)
	}
	return m
}

// settle waits until nothing is under way any more.
func (y *pipeline) settle(t *testing.T) sample {
	t.Helper()
	var s sample
	for range 300 {
		if s = y.look(nil); s.kvPages == 0 && s.tensorBytes == 0 {
			return s
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("still held after a minute of rest: %v", s)
	return s
}

// check compares the second quarter of the run with the last one: by then
// everything that has a steady size has reached it.
func (y *pipeline) check(t *testing.T, samples []sample, end sample) {
	t.Helper()
	if len(samples) < 8 {
		t.Fatalf("only %d samples", len(samples))
	}
	quarter := len(samples) / 4
	early, late := samples[quarter:2*quarter], samples[len(samples)-quarter:]
	for _, c := range []struct {
		what  string
		of    func(sample) float64
		slack float64
	}{
		{"goroutines", func(s sample) float64 { return s.goroutines }, 1.1},
		{"resident memory", func(s sample) float64 { return s.rss }, 1.15},
		{"KV pages", func(s sample) float64 { return s.kvPages }, 1.3},
	} {
		if a, b := mean(early, c.of), mean(late, c.of); b > a*c.slack {
			t.Errorf("%s grew from %.0f to %.0f", c.what, a, b)
		}
	}
	if end.requests == 0 || y.failures.Load() > 0 {
		t.Errorf("%d requests, %d failed", end.requests, y.failures.Load())
	}
}

func mean(samples []sample, of func(sample) float64) (sum float64) {
	for _, s := range samples {
		sum += of(s)
	}
	return sum / float64(len(samples))
}
