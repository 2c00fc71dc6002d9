package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/loadtest/fleet"
)

// browned begins the names of scenarios in a brownout. One request in four of theirs accepts no
// stand-in, and has the tokens that it has alone, without a brownout.
const browned = "browned-"

func spared(i int) bool { return i%4 == 3 }

// One process of each kind is killed in the middle of requests in a brownout. Each stream is that of its
// log, and `switchyard rerun` finds the same tokens, alone; requests that accept no stand-in have those
// that they have without a brownout.
func TestBrownedAreComputedAgain(t *testing.T) {
	if wanted(t) == short {
		t.Skip("this takes minutes: set SWITCHYARD_CHAOS to 1 or long")
	}
	programs := fleet.Build(t)
	folder := students(t, programs)
	for _, tc := range []struct {
		brownout string
		kinds    []string
	}{{"partial", fleet.Kinds}, {"full", []string{"gate", "attention"}}} {
		t.Run(tc.brownout, func(t *testing.T) {
			for name, value := range map[string]string{"BROWNOUT": tc.brownout, "UNITED": folder, "WAY": "8", "SLO_PREFILL": "1h", "SLO_DECODE": "1h"} {
				t.Setenv("SWITCHYARD_"+name, value)
			}
			b := &brownedPipeline{pipeline: startPipeline(t, programs, "unacked"), programs: programs}
			defer func() { t.Log("\n" + b.table()) }()
			b.Scale(2, 2)
			b.alone()
			b.run("brownout", "set", "--nats", b.URL(), "--prefill", "0.5", "--decode", "0.4")
			b.try(tc.brownout + "-calm")
			for _, kind := range tc.kinds {
				b.kill(tc.brownout+"-kill-"+kind, kind)
			}
			if b.degraded == 0 {
				t.Error("no row was degraded")
			}
		})
	}
}

// brownedPipeline is one with what was degraded of its requests.
type brownedPipeline struct {
	*pipeline
	programs string
	degraded int
}

// kill kills the first process of a kind in the middle of a scenario, and replaces it.
func (b *brownedPipeline) kill(name, kind string) {
	b.T.Helper()
	b.try(name, func() { b.Kill(kind) })
	b.Scale(2, 2)
}

// try runs a scenario, and computes its requests again.
func (b *brownedPipeline) try(name string, trouble ...func()) {
	b.T.Helper()
	if b.T.Failed() {
		b.T.FailNow()
	}
	scenario := browned + name
	got, open := b.load.batch(scenario, false, func() {
		for _, f := range trouble {
			f()
		}
	})
	b.rows = append(b.rows, row{scenario: scenario, open: open, stall: longest(got, stallOf)})
	b.load.raw.check(b.T, scenario, false)
	b.CheckAlive()
	changed := 0
	for i, a := range got {
		if spared(i) {
			b.compareOne(scenario, i, a)
		} else if !slices.Equal(a.ids, b.want[i].ids) {
			changed++
		}
		b.again(scenario, i, a)
	}
	b.T.Logf("%s: %d of %d answers that may be degraded are others than without a brownout", scenario, changed, requests-requests/4)
}

// again wants the log of a request to have what its stream had, and computes it again.
func (b *brownedPipeline) again(scenario string, i int, got answer) {
	b.T.Helper()
	logged, err := b.load.again(scenario, i)
	if err != nil || !slices.Equal(logged.ids, got.ids) {
		b.T.Errorf("%s, request %d: the log has %v, %v; the stream had %v", scenario, i, logged.ids, err, got.ids)
	}
	var v struct {
		Identical        bool
		Tokens, Degraded int
	}
	out := b.run("rerun", "--nats", b.URL(), "--json", prompt(scenario, i).RequestId)
	if err := json.Unmarshal([]byte(out), &v); err != nil || !v.Identical || v.Tokens != tokens || spared(i) && v.Degraded > 0 {
		b.T.Errorf("%s, request %d, computed again: %s", scenario, i, out)
	}
	b.degraded += v.Degraded
}

func (b *brownedPipeline) run(args ...string) string {
	b.T.Helper()
	return command(b.T, b.programs, args...)
}

// command runs the program, and returns what it printed.
func command(t *testing.T, programs string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), filepath.Join(programs, "switchyard"), args...)
	var said strings.Builder
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		t.Errorf("switchyard %s: %v\n%s%s", strings.Join(args, " "), err, out, said.String())
	}
	return string(out)
}

// students makes united experts that have hardly learnt anything, which shows mistakes best.
func students(t *testing.T, programs string) (folder string) {
	t.Helper()
	dir, model := t.TempDir(), filepath.Join("..", "..", "models", "demo")
	var b strings.Builder
	for i := range 12 {
		b.WriteString(strings.Repeat(fmt.Sprintf("%s and so on, %d times. ", texts[i%len(texts)], i), 6) + "\n<|endoftext|>\n")
	}
	text, recording, folder := filepath.Join(dir, "a.txt"), filepath.Join(dir, "rec.st"), filepath.Join(dir, "united")
	if err := os.WriteFile(text, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, programs, "record", "--model", model, "--out", recording, "--texts", text, "--tokens", "600", "--prompt-tokens", "32", "--answer-tokens", "2")
	command(t, programs, "distill", model, "--recording", recording, "--out", folder, "--way", "8", "--group", "output", "--rows", "60", "--passes", "1", "--through", "400")
	if t.Failed() {
		t.FailNow()
	}
	return folder
}
