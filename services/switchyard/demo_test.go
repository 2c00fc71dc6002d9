package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/switchyard/switchyard/internal/testkit"
	"github.com/switchyard/switchyard/services/switchyard/cli"
	"github.com/switchyard/switchyard/services/switchyard/up"
)

// A demo whose answer does not get out ends as other commands do.
func TestDemoWithoutAnswer(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(t.Context())
	for _, tt := range []struct {
		name string
		out  io.Writer
		code int
		want string
	}{
		{"no room", brokenPipe{errors.New("no space left")}, cli.ExitFailed, "switchyard: writing the answer: no space left\n"},
		{"a signal", &interrupting{signal: signal}, cli.ExitInterrupted, "switchyard: interrupted\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			says := &bytes.Buffer{}
			code := runUntil(ctx, []string{"demo"}, cli.Stdio{In: strings.NewReader(""), Out: tt.out, Err: says})
			if code != tt.code || !strings.HasSuffix(says.String(), tt.want) {
				t.Errorf("code %d, %q", code, says.String())
			}
		})
	}
}

// The demo, the client and the README have one text for one prompt.
func TestDemoText(t *testing.T) {
	t.Parallel()
	const text = "Once upon a time"
	var few []string
	if testkit.Race { // make test has compared the whole text
		few = []string{"--max-tokens", "9"}
	}
	demo := invoke("", append([]string{"demo", text}, few...)...)
	if demo.Code != cli.ExitDone {
		t.Fatalf("%+v", demo)
	}
	y := startUp(t, func(c *up.Cmd) { c.Model, c.Listen = []string{"../../models/demo"}, "127.0.0.1:0" })
	prompted := invoke("", "prompt", "--nats", y.URL(), "--model", y.Name(), "--max-tokens", "8", text)
	if prompted.Code != cli.ExitDone || !strings.HasPrefix(demo.Out, text+strings.TrimSuffix(prompted.Out, "\n")) {
		t.Errorf("the demo's text is %q; prompt gives %+v", demo.Out, prompted)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if shown := strings.TrimRight(strings.ReplaceAll(demo.Out, " \n", "\n"), "\n"); !strings.Contains(string(readme), shown) {
		t.Errorf("the README does not show %q", shown)
	}
}

// A service that is asked to stop before it has a server has nothing to drain.
func TestStopWithoutServer(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(t.Context())
	says := &interrupting{signal: signal} // at the first word of what it waits for
	code := runUntil(ctx, []string{"gate", "--nats", "nats://127.0.0.1:1"}, cli.Stdio{In: strings.NewReader(""), Out: io.Discard, Err: says})
	if told := says.told.String(); code != cli.ExitDone || !strings.Contains(told, "no NATS server answers yet") || strings.Contains(told, "switchyard: ") {
		t.Errorf("code %d, %q", code, told)
	}
}

// A command that a signal ended says that, and not what broke by it.
func TestSignalBeforeWork(t *testing.T) {
	t.Parallel()
	ctx, signal := context.WithCancel(t.Context())
	signal()
	out, says := &bytes.Buffer{}, &bytes.Buffer{}
	code := runUntil(ctx, []string{"demo"}, cli.Stdio{In: strings.NewReader(""), Out: out, Err: says})
	if code != cli.ExitInterrupted || says.String() != "switchyard: interrupted\n" || out.Len() > 0 {
		t.Errorf("code %d, %q, %q", code, says.String(), out.String())
	}
}
