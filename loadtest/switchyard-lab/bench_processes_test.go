package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/loadtest/bench"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// noted runs switchyard, and notes each process.
func noted(t *testing.T, note func(*exec.Cmd)) up.ProgramFunc {
	t.Helper()
	path, err := product()
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, path, args...)
		note(cmd)
		return cmd
	}
}

// Services as processes give tokens, and hops between processes times; all processes end.
func TestBenchProcesses(t *testing.T) {
	if testkit.Race {
		t.Skip("what its processes do is raced by tests in one process, in a fraction of the time")
	}
	var mu sync.Mutex
	var all []*exec.Cmd
	c := &BenchCmd{}
	if err := cli.FillDefaults(c); err != nil {
		t.Fatal(err)
	}
	c.Processes, c.JSON, c.Batch, c.Rounds, c.Seconds, c.Threads = true, true, []int{2}, 1, 0.02, 1
	c.process = noted(t, func(cmd *exec.Cmd) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, cmd)
	})
	var out bytes.Buffer
	e := quietEnv()
	e.Out, e.NATS = &out, cli.DefaultNATS
	if err := c.Run(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	var r bench.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.Processes == nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	p := *r.Processes
	if !(p.Apart > 0 && p.OneProcess > 0 && p.Direct > 0 && p.Ratio > 0 && p.OneRatio > 0 && p.Low <= p.Ratio && p.Ratio <= p.High) {
		t.Errorf("%+v", p)
	}
	if h := p.Hops; !(h.OneProcess > 0 && h.Apart > 0 && h.BareOneProcess > 0 && h.BareApart > 0) {
		t.Errorf("%+v", h)
	}
	if len(all) != len(pipelineServices)+1 {
		t.Errorf("%d processes", len(all))
	}
	for _, cmd := range all {
		if cmd.ProcessState == nil {
			t.Errorf("process %d has not ended", cmd.Process.Pid)
		}
	}
}

// A process that cannot serve ends the measurement with what it said.
func TestBenchProcessesFail(t *testing.T) {
	c := &BenchCmd{}
	if err := cli.FillDefaults(c); err != nil {
		t.Fatal(err)
	}
	c.process = func(ctx context.Context, args ...string) *exec.Cmd {
		return noted(t, func(*exec.Cmd) {})(ctx, append(args, "--no-such-flag")...)
	}
	e := quietEnv()
	e.NATS = cli.DefaultNATS
	if _, err := c.apart(t.Context(), e, "demo"); err == nil || !strings.Contains(err.Error(), "--no-such-flag") {
		t.Errorf("%v", err)
	}
}
